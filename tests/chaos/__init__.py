"""Process chaos: real servers and processes under a drawn schedule of faults, judged from what they
wrote down. See docs/chaos.md.
"""
