"""Tests of the audit: the rules' two engines agree, records become ranges without a loss, and each
violation that was planted is found.
"""
