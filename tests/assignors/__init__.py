"""Tests of assignors of others, in real processes."""
