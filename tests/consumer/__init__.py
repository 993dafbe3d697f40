"""Tests of the consumer shim without servers."""
