"""The tests, and what they share (`tests.harness`). A package, so that `python -m tests.sim` and
the benchmarks work from a checkout.
"""
