"""Whether nobody but coordinators can have written what a tool reads, and which groups coordinators
leave alone: asked as coordinators do (`zkcoord.zk.acl.belief`), over a tool's own client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zkcoord.zk.acl.belief import WRITING, Belief
from zkcoord.zk.acl.client import acls_of
from zkcoord.zk.acl.table import ALL, Principal, Roles, bits, members_may
from zkcoord.zk.port import Acl, AclAnswer, AclEntry, Denied, GetData, Missing, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import Layout

WORLD = "world"
UNTOLD = Roles((), (), ())
"""Where nothing was said of roles, who may write the groups' root is believed, and nobody else."""


def doubts(
    reader: SyncClient, layout: Layout, above: Sequence[str], own: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Why some of these are not believed, by name: others than coordinators may write one of its
    `own` nodes, or one of those `above` all of them (below the groups' root). A node that is not
    there says nothing. Raises `UnavailableError`.
    """
    if not own:
        return {}
    above = (layout.epoch, *above)
    answers = acls_of(reader, [*above, *(path for paths in own.values() for path in paths)])
    belief, found = Belief(reader.roles or UNTOLD, answers[0], True), iter(answers)
    wrong = next(filter(None, [belief.closed(path, next(found)) for path in above]), "")
    each = {
        name: next(filter(None, [belief.closed(path, next(found)) for path in paths]), "")
        for name, paths in own.items()
    }
    return {
        name: f"not only coordinators can have made it, so it counts for nothing: {wrong or why}"
        for name, why in each.items()
        if wrong or why
    }


def left_alone(reader: SyncClient, layout: Layout, groups: Sequence[str]) -> dict[str, str]:
    """Why coordinators with roles leave some of these groups alone, by name. Of what this client
    may not see nothing is said. Where it was told of no roles, and the coordinator that leads has
    none, none is left alone; where none leads that tells it, it is said what to do if roles were
    given up. Raises `UnavailableError`.
    """
    heads = reader.read([GetData(layout.group(name)) for name in groups])
    there = [name for name, head in zip(groups, heads, strict=True) if isinstance(head, Node)]
    if not there:
        return {}
    asked = (layout.epoch, layout.asks, ClassicPaths(layout).requests)
    root, *places = acls_of(reader, asked)
    if not isinstance(root, Acl) or _is_open(root):
        return {}  # whoever can write it is believed, and that is everybody
    if reader.roles is None and isinstance(places[0], Missing):
        return {}  # no coordinator with roles has been here, and others leave nothing alone
    roles = reader.roles or _seen(asked, (root, *places))
    belief = Belief(roles, root, True)
    parts = [layout.parts(name) for name in there]
    found = iter(acls_of(reader, [path for paths in parts for path in paths]))
    judged = {}
    for name, paths in zip(there, parts, strict=True):
        answers = [_shown(belief, next(found)) for _ in paths]
        judged[name] = belief.usable_group(layout, name, paths, answers)
    found_wrong = {name: why for name, why in judged.items() if why}
    if reader.roles is not None or not found_wrong:
        return found_wrong
    roles_hold = _has_roles(reader, layout, roles)
    if roles_hold is None:
        advice = f"where coordinators have no roles any more, delete {layout.asks}"
        return {name: f"{why}; {advice}" for name, why in found_wrong.items()}
    return found_wrong if roles_hold else {}


def _has_roles(reader: SyncClient, layout: Layout, seen: Roles) -> bool | None:
    """Whether the coordinator that leads has roles, by the ACL that it gave its node: with roles
    members, as they are `seen` elsewhere, may only read it. None: that cannot be told. What came
    with the epoch is its own, for who may write that is believed.
    """
    (acl,) = acls_of(reader, [layout.leader])
    leader, epoch = reader.read([GetData(layout.leader), GetData(layout.epoch)])
    if not (isinstance(acl, Acl) and isinstance(leader, Node) and isinstance(epoch, Node)):
        return None
    if leader.stat.czxid != epoch.stat.mzxid:
        return None
    less = {Principal(one.scheme, one.id) for one in acl.entries if one.perms != bits(ALL)}
    if less and less.isdisjoint(seen.members):
        return None  # readers, or one ACL for all nodes that lets others look
    return bool(less)


def _is_open(root: Acl) -> bool:
    return any(one.scheme == WORLD and one.perms & bits("w") for one in root.entries)


def _seen(paths: Sequence[str], answers: Sequence[AclAnswer]) -> Roles:
    """Where nothing was said of roles: members are who may do there what members may, and no
    more.
    """
    found: dict[Principal, None] = {}
    for path, answer in zip(paths, answers, strict=True):
        may = bits(members_may(path)) | bits("c")  # an older version let them create groups
        for one in answer.entries if isinstance(answer, Acl) else ():
            given = one.perms & WRITING
            if one.scheme != WORLD and given and not given & ~may:
                found[Principal(one.scheme, one.id)] = None
    return Roles((), tuple(found), ())


def _shown(belief: Belief, answer: AclAnswer) -> AclAnswer:
    """What can be judged: where no member is known, everybody who has a name may be one."""
    if isinstance(answer, Denied):
        return Missing()
    if belief.roles.members or not isinstance(answer, Acl):
        return answer

    def counts(one: AclEntry) -> bool:
        return one.scheme == WORLD or (one.scheme, one.id) in belief.trusted

    return Acl(tuple(filter(counts, answer.entries)), answer.num_children)
