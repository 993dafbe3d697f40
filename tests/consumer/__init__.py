"""Tests of the consumer without a broker."""
