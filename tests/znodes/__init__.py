"""Tests of the paths and the codec."""
