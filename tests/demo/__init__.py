"""Tests of the demo and of its parts."""
