"""Which assignors are installed: entry points of the group `zkcoord.assignors`. Finding reads
metadata only; loading, which runs code of others, happens in a child process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from importlib.metadata import EntryPoint, entry_points

from zkcoord.core.assignment import Assignment, AssignmentInput
from zkcoord.core.value_type import value

GROUP = "zkcoord.assignors"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)

Assign = Callable[[AssignmentInput], Assignment]


@value
class PluginsFound:
    """`names` can be used, in order. `notes` says in one sentence each what was left out, and
    why.
    """

    names: tuple[str, ...]
    notes: tuple[str, ...]


def find(builtin: Collection[str]) -> PluginsFound:
    """The installed assignors but those called like a built-in one, those that two packages offer,
    and those whose name no registration could hold.
    """
    offers: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        offers.setdefault(point.name, []).append(point)
    names, notes = [], []
    for name in sorted(offers):
        by = " and ".join(sorted(_offered_by(point) for point in offers[name]))
        if _NAME.fullmatch(name) is None:
            notes.append(
                f"the assignor {name[:100]!r} of {by} is left out: a name has 1 to 100 of the"
                " characters A-Z a-z 0-9 . _ -"
            )
        elif name in builtin:
            notes.append(
                f"the assignor {name} of {by} is left out, since the one of that name that is built"
                " in is used: give it another name"
            )
        elif len(offers[name]) > 1:
            notes.append(
                f"the assignor {name} is offered by {by} and therefore left out: uninstall all but"
                " one, or rename them"
            )
        else:
            names.append(name)
    return PluginsFound(tuple(names), tuple(notes))


def load(name: str) -> Assign:
    """The callable behind an entry point: a function, an object with `assign`, or a class of such
    objects. Raises whatever the package raises, and `LookupError` where nothing has this name.
    """
    points = tuple(entry_points(group=GROUP, name=name))
    if len(points) != 1:
        raise LookupError(f"{len(points)} installed packages offer the assignor {name}")
    found = points[0].load()
    if hasattr(found, "assign"):
        found = (found() if isinstance(found, type) else found).assign
    if not callable(found):
        raise TypeError(f"{points[0].value} is neither callable nor has a method assign")
    return found  # type: ignore[no-any-return]  # checked to be callable above


def _offered_by(point: EntryPoint) -> str:
    return f"{point.dist.name if point.dist else 'an unnamed package'} ({point.value})"
