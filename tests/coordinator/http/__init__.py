"""Tests of what a coordinator says over HTTP."""
