"""All rules, and what they find of one group. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from zkcoord.health.trouble.changes import slow_handler
from zkcoord.health.trouble.comings import ended_again, flapping, restless
from zkcoord.health.trouble.evidence import Evidence
from zkcoord.health.trouble.kinds import Trouble, TroubleKind
from zkcoord.health.trouble.standing import idle, malformed, uneven, unowned
from zkcoord.health.trouble.stuck import poison, stands_still

TROUBLES_MAX = 50
"""Findings of one group that are told: who has more does not read on."""

Rule = Callable[[Evidence], Iterator[Trouble]]
BY_JOURNAL: tuple[Rule, ...] = (flapping, restless, ended_again, slow_handler)
BY_COMMITS: tuple[Rule, ...] = (poison, stands_still)
BY_NODES: tuple[Rule, ...] = (unowned, malformed, uneven, idle)
RULES: tuple[Rule, ...] = (*BY_JOURNAL, *BY_COMMITS, *BY_NODES)

KINDS_BY_JOURNAL = (
    TroubleKind.REBALANCE_STORM,
    TroubleKind.FLAPPING_MEMBER,
    TroubleKind.POLL_INTERVAL,
    TroubleKind.SESSION_EXPIRY,
    TroubleKind.SLOW_HANDLER,
)
"""What a coordinator's own records tell, without a look at nodes or brokers."""


def troubles_of(evidence: Evidence, rules: Iterable[Rule] = RULES) -> list[Trouble]:
    """What is wrong, the worst first; one of each kind and subject, the `foremost` of them."""
    found: dict[tuple[str, str, str], Trouble] = {}
    for rule in rules:
        for trouble in rule(evidence):
            found.setdefault(trouble.key, trouble)
    return foremost(found.values(), TROUBLES_MAX)


def foremost(troubles: Iterable[Trouble], at_most: int) -> list[Trouble]:
    """So many, the worst first. Where there are more, the kinds take turns, each with what has
    lasted longest: who makes many of one kind hides nothing of another, nor what was there before.
    """
    number, turns = Counter[TroubleKind](), list[tuple[int, int, int, Trouble]]()
    for trouble in sorted(troubles, key=lambda one: one.since_ms):
        turns.append((number[trouble.kind], trouble.kind.rank, len(turns), trouble))
        number[trouble.kind] += 1
    found = [trouble for *_, trouble in sorted(turns, key=lambda turn: turn[:3])[:at_most]]
    return sorted(found, key=lambda one: (one.kind.rank, one.subject))
