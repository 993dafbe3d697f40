"""The edge to ZooKeeper: the port (the whole I/O seam), the real session behind it, and what the
coordinator builds on them.
"""
