"""Assignors of others: found as entry points, run in processes of their own, with a deadline
(`docs/assignors.md`).
"""
