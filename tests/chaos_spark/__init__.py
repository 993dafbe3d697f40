"""Crash handovers and graceful moves between Spark applications that share a group, in front of
real servers: `python -m tests.chaos_spark` (`make chaos-spark`).
"""
