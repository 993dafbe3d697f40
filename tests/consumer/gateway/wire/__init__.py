"""Tests of what is pure of a wire member."""
