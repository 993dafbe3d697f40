"""Tests of the consumer on a real broker."""
