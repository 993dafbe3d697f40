"""Tests of the verdict: each rule is shown what it must find and what it must leave alone."""
