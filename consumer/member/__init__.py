"""The membership around the pure core: session, registration, reads and writes, its thread, its
logs.
"""
