"""Tests of what files groups: queue, index, what is filed."""
