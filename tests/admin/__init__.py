"""What operators change: plans, races, conditions."""
