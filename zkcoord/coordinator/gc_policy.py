"""Python's cyclic garbage collector in a process that holds millions of values for weeks.

What a coordinator knows of the world (10,000 groups: some two million objects) is freed by
reference counts alone; only a term as a whole is a cycle, because its groups call back to their
core. The collector does not know that: at its defaults it went through all of it again and again
while the world was read, which was more than a third of a takeover's processor time, and a full
collection later stops every decision for the better part of a second. So young objects are looked
at seldom, all objects practically never. While the world is read nothing is collected, what is
known then is set aside for the term, and at the term's end, when nobody waits for this process,
everything is collected once.
"""

from __future__ import annotations

import gc

YOUNG_OBJECTS, YOUNG_ROUNDS, MIDDLE_ROUNDS = 50_000, 20, 1_000


def collect_seldom() -> None:
    """Call once, when the process begins."""
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_ROUNDS, MIDDLE_ROUNDS)


def term_begins() -> None:
    """Call when a term begins: nothing is collected until `world_is_read`, or the term's end."""
    gc.disable()


def world_is_read() -> None:
    """Call when all groups are known: the collector looks at what there is now no more."""
    gc.freeze()
    gc.enable()


def collect_term() -> None:
    """Call when a term has ended and its core is dropped."""
    gc.unfreeze()
    gc.enable()
    gc.collect()
