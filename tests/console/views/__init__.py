"""Verdicts without thresholds and lag in seconds."""
