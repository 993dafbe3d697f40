"""Tests of what a client may do."""
