"""The pins of groups as tools show them: what coordinators and gateways do not believe says nothing
here either, and is named with how that is mended (`zkcoord.zk.classic.pins`).
"""

from __future__ import annotations

from collections.abc import Mapping

from zkcoord.core.model import Malformed
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.client import acls_of
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import Denied, GetData, Node, ReadAnswer
from zkcoord.zk.sync.client import SyncClient, not_allowed
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import Pin, decode_pin
from zkcoord.znodes.paths import Layout

WHAT = "pin of a group"
DOUBTED = "pin that is not believed"
UNTOLD = Roles((), (), ())
"""Where nothing was said of roles, who may write the groups' root is believed, and nobody else."""


def read_pins(reader: SyncClient, layout: Layout, groups: list[str]) -> dict[str, Pin | Malformed]:
    """What was said of these, where anything was. `Malformed`: it cannot be read, or is not
    believed (`DOUBTED`). Raises `UnavailableError`.
    """
    paths = ClassicPaths(layout)
    answers = reader.read([GetData(paths.pin(group)) for group in groups])
    found = dict(zip(groups, answers, strict=True))
    said = {group: _decoded(paths, group, answer) for group, answer in found.items()}
    doubts = _doubts(reader, paths, [group for group, pin in said.items() if isinstance(pin, Pin)])
    return {
        group: Malformed(DOUBTED, group, doubts[group]) if group in doubts else pin
        for group, pin in said.items()
        if pin is not None
    }


def _decoded(paths: ClassicPaths, group: str, answer: ReadAnswer) -> Pin | Malformed | None:
    if isinstance(answer, Denied):
        return Malformed(WHAT, group, not_allowed(paths.pin(group), answer))
    return decode_pin(group, answer.data) if isinstance(answer, Node) else None


def _doubts(reader: SyncClient, paths: ClassicPaths, groups: list[str]) -> Mapping[str, str]:
    """Why some of these are not believed."""
    if not groups:
        return {}
    above = (paths.layout.epoch, *paths.above_pins())
    answers = acls_of(reader, [*above, *map(paths.pin, groups)])
    belief, found = Belief(reader.roles or UNTOLD, answers[0], True), iter(answers)
    wrong = next(filter(None, [belief.closed(path, next(found)) for path in above]), "")
    own = {group: wrong or belief.closed(paths.pin(group), next(found)) for group in groups}
    return {
        group: f"not only coordinators can have made it, so it counts for nothing: {why}"
        for group, why in own.items()
        if why
    }
