"""Every way to share partitions beside each other: one run, one machine, the same measuring code
for all (`python -m tests.bench.side`).
"""
