"""Tests of the runtime around the coordinator."""
