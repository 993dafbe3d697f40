"""Tests of the bytes between clients and brokers."""
