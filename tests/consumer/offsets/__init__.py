"""Stores of offsets, initial offsets, commits."""
