"""The pins of groups as tools show them: what coordinators and gateways do not believe says nothing
here either, and is named with how that is mended (`zkcoord.zk.classic.pins`).
"""

from __future__ import annotations

from zkcoord.core.model import Malformed
from zkcoord.zk.port import Denied, GetData, Node, ReadAnswer
from zkcoord.zk.sync.beliefs import doubts
from zkcoord.zk.sync.client import SyncClient, not_allowed
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import Pin, decode_pin
from zkcoord.znodes.paths import Layout

WHAT = "pin of a group"
DOUBTED = "pin that is not believed"


def read_pins(reader: SyncClient, layout: Layout, groups: list[str]) -> dict[str, Pin | Malformed]:
    """What was said of these, where anything was. `Malformed`: it cannot be read, or is not
    believed (`DOUBTED`). Raises `UnavailableError`.
    """
    paths = ClassicPaths(layout)
    answers = reader.read([GetData(paths.pin(group)) for group in groups])
    found = dict(zip(groups, answers, strict=True))
    said = {group: _decoded(paths, group, answer) for group, answer in found.items()}
    pins = {group: (paths.pin(group),) for group, pin in said.items() if isinstance(pin, Pin)}
    why = doubts(reader, layout, paths.above_pins(), pins)
    return {
        group: Malformed(DOUBTED, group, why[group]) if group in why else pin
        for group, pin in said.items()
        if pin is not None
    }


def _decoded(paths: ClassicPaths, group: str, answer: ReadAnswer) -> Pin | Malformed | None:
    if isinstance(answer, Denied):
        return Malformed(WHAT, group, not_allowed(paths.pin(group), answer))
    return decode_pin(group, answer.data) if isinstance(answer, Node) else None
