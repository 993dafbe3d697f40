"""Tests of the consumer shim on a real broker, with a real ensemble and a real coordinator."""
