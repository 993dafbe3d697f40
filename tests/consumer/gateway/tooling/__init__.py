"""Tests of what answers tools, and of what a gateway tidies up."""
