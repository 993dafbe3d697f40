"""Whether what is written of client-led groups is the coordinators' own: asked, where there are
roles, before any of it is believed, by coordinators and by gateways alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from zkcoord.core.value_type import value
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import AclsDone, AclsResult, Port
from zkcoord.znodes.classic.paths import ClassicPaths


@value
class LedDoubts:
    """Why not: `above` is what is wrong above all of them, `own` with the nodes of some of them, by
    group. Sentences without a full stop. `foreign`: what is said of these no coordinator may write
    now, so that members do not believe it; a gateway that has believed it before still may.
    """

    above: str = ""
    own: dict[str, str] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()

    def of(self, group: str) -> str:
        """Why what is written of this group is not believed; "": it is."""
        return self.above or self.own.get(group, "")


def ask_who_wrote(
    port: Port,
    roles: Roles | None,
    paths: ClassicPaths,
    groups: Sequence[str],
    done: Callable[[LedDoubts | None], None],
    by_coordinator: bool = False,
) -> None:
    """Ask who can have written what is above these groups, and the nodes that say what was decided
    of each; those that are not there say nothing. `done` hears None where ZooKeeper does not
    answer; without roles everything is believed.
    """
    if roles is None:
        return done(LedDoubts())
    above = (paths.layout.epoch, *paths.above_groups())
    own = {group: (paths.group(group), paths.state(group), paths.round(group)) for group in groups}

    def answered(result: AclsResult) -> None:
        if not isinstance(result, AclsDone):
            return done(None)
        belief, acls = Belief(roles, result.answers[0], by_coordinator), iter(result.answers)
        wrong = [belief.closed(path, next(acls)) for path in above]
        found, foreign = {}, set()
        for group, nodes in own.items():
            of_nodes = [next(acls) for _ in nodes]
            found[group] = next(filter(None, map(belief.closed, nodes, of_nodes)), "")
            if not belief.writable(of_nodes[1]):
                foreign.add(group)
        doubts = {group: why for group, why in found.items() if why}
        return done(LedDoubts(next(filter(None, wrong), ""), doubts, frozenset(foreign)))

    return port.acls([*above, *(path for nodes in own.values() for path in nodes)], answered)
