"""What is worth a line of the log only now and then."""

from __future__ import annotations

from consumer.gateway.operation.seldom import Seldom


def test_of_each_once_in_a_while_and_not_of_all() -> None:
    now = 0.0
    said = Seldom(10.0, 2, lambda: now)
    assert [said.is_due(name) for name in "aabcc"] == [True, False, True, False, False]
    now = 10.0
    assert [said.is_due(name) for name in "cab"] == [True, True, False]
    assert len(said) == 2
