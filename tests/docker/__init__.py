"""The image, and a group in containers that are killed, paused and cut off: `python -m
tests.docker`.
"""
