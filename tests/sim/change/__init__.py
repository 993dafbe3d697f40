"""Groups that go over from the coordinator to a leader among their clients, and back, while they
run.
"""
