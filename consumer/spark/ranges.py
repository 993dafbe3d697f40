"""What applications of the first release import by this name, from `consumer.spark.plan`."""

from __future__ import annotations

from consumer.spark.plan import Plan, PlanError, PlannedRange, parse_plan

__all__ = ["Plan", "PlanError", "PlannedRange", "parse_plan"]
