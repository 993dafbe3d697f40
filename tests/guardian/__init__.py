"""Tests of the guardian: real processes, really killed, against a real ZooKeeper."""
