"""Migrations between the stores of offsets."""
