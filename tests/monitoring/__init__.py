"""Tests of docs/monitoring: alerts and the dashboard."""
