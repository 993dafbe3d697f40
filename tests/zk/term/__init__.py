"""Tests of one term: election, writer, work."""
