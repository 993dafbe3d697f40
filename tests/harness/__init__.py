"""What every suite that touches a real server shares: waiting for a condition, servers as fixtures, a proxy that breaks connections.

The fixtures themselves are in `tests/conftest.py`. Nothing here is started unless a test asks for it, and nothing outlives the test process, also when that is killed with -9.
"""
