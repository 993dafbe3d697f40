"""What must hold of what operators have the coordinator do, from transactions alone.

I23  an incarnation that a coordinator evicted never owns, commits or registers again (but a
member that has not heard yet that it is registered, and asks once more in its session: it holds
nothing); a request to evict is taken up only with the eviction, or of whom nobody can evict. I24  a
group that its coordinator has reported to be paused is started nothing before an operator says
otherwise; while it is paused and quiet nobody owns anything (`still_owned`, which the world asks).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.sim.kernel import Kernel
from tests.sim.places import Place, Places
from tests.sim.tree import Rec, Tree, Txn

Changes = list[tuple[Place, str, Rec | None, Rec | None]]


@dataclass(slots=True)
class Said:
    """Of one group: who was evicted, by session; whether its coordinator knows of the pause."""

    evicted: set[int] = field(default_factory=set)
    pause_known: bool = False


class OperatorChecks:
    """See the module."""

    def __init__(
        self, kernel: Kernel, tree: Tree, places: Places, violate: Callable[[str, str], None]
    ) -> None:
        self.kernel = kernel
        self.tree = tree
        self.places = places
        self.violate = violate
        self.groups: dict[str, Said] = {}
        self.known: set[int] = set()

    def heard(self, incarnation: int) -> None:
        """A member knows that it is registered."""
        self.known.add(incarnation)

    def committed(self, txn: Txn, role: str, places: Changes) -> None:
        """Look at one transaction, just after it happened."""
        for place, path, before, after in places:
            if place.kind == "mode":
                self._of(place).pause_known = False
            elif role == "coordinator":
                self._decided(place, path, before, after)
            elif role == "consumer" and after is not None:
                self._wrote(txn, place, path, before, after)
        for place, path, before, after in places if role == "coordinator" else ():
            if place.kind == "request" and after is None and before is not None:
                self._taken_up(place, path, _json(before.data))

    def _of(self, place: Place) -> Said:
        return self.groups.setdefault(place.group, Said())

    def _decided(self, place: Place, path: str, before: Rec | None, after: Rec | None) -> None:
        if place.kind == "ids" and after is None and before is not None:
            if before.czxid in self.known:
                self._of(place).evicted.add(before.owner)
        elif place.kind == "group" and after is not None:
            said = _json(after.data)
            mode = self.tree.nodes.get(self.places.mode(place.group))
            now = _json(mode.data) if mode is not None else {}
            if now.get("paused") is True and said.get("paused") == now["by"]:
                self._of(place).pause_known = True
        elif place.kind == "command" and before is None and after is not None:
            start = _json(after.data).get("option") == "start-fetcher"
            if start and self._of(place).pause_known:
                self.violate("I24", f"{path} is a start in a group that is paused")

    def _wrote(self, txn: Txn, place: Place, path: str, before: Rec | None, after: Rec) -> None:
        known = self.groups.get(place.group)
        if known is None or txn.session not in known.evicted:
            return
        claims = place.kind in ("ids", "owner") and before is None
        stores = place.kind == "offset" and (before is None or before.version != after.version)
        if claims or stores:
            self.violate("I23", f"{txn.host}, which was evicted, wrote {path}")

    def _taken_up(self, place: Place, path: str, asked: dict[str, Any]) -> None:
        if asked.get("request") != "evict":
            return
        node = self.tree.nodes.get(f"{self.places.ids(place.group)}/{asked['member']}")
        if node is None:
            self.kernel.happened["eviction asked for and done"] += 1
        elif str(node.owner) == asked["session"] and "zkcoord" in _json(node.data):
            self.violate("I23", f"{path} is taken up, and {asked['member']} is still registered")

    def still_owned(self, group: str) -> str:
        """What somebody's session still owns of a group; "" for nothing."""
        root = self.places.owners(group)
        for topic in sorted(self.tree.children.get(root, ())):
            for number in sorted(self.tree.children.get(f"{root}/{topic}", ())):
                if self.tree.nodes[f"{root}/{topic}/{number}"].owner:
                    return f"{topic}-{number}"
        return ""


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
