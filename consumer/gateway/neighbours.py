"""Which gateways there are: this one's own node, and the others', for clients to know them all.

Clients are sent where these nodes say, with their passwords. So where there are roles only
coordinators may make them, and what others could have made is not believed; nor is what would stay
without its maker's session. A gateway that may not make one works, but clients of the others do not
learn of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from consumer.gateway.address import Address, is_host
from consumer.member.joining.missing_nodes import make_missing, with_parents
from zkcoord.core.model import Malformed
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import (
    AclEntry,
    AclsDone,
    AclsResult,
    Children,
    Committed,
    Create,
    Created,
    Fired,
    GetChildren,
    GetData,
    MultiResult,
    Node,
    Port,
    ReadDone,
    ReadResult,
    Rejected,
    WatchMode,
    ZkError,
)
from zkcoord.znodes.gateway_nodes import (
    NODES_READ_MAX,
    AnnouncedGateway,
    announced,
    encode_gateway,
    gateway_number,
)
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import Layout, parents

log = logging.getLogger(__name__)

GATEWAYS_MAX = 100
SAID_MAX = 100
NAMED_MAX = 5
READ_AT_ONCE = 50

Said = AnnouncedGateway | Malformed


def differing(options: Mapping[str, str], other: AnnouncedGateway) -> list[str]:
    """The options that another gateway was given otherwise, as far as it says anything of them."""
    return sorted(
        name for name, digest in options.items() if other.options.get(name, digest) != digest
    )


class Neighbours:
    """See the module. `changed` hears of all that are announced, this one first where it is, each
    time that they changed; `options`: digests of those that all must share; `in_kafka`: what is
    said of groups whose offsets Kafka keeps. A user of an `OwnSession`.
    """

    def __init__(
        self,
        layout: Layout,
        acl: tuple[AclEntry, ...],
        roles: Roles | None,
        own: Address,
        changed: Callable[[tuple[AnnouncedGateway, ...]], None],
        options: Mapping[str, str] | None = None,
        in_kafka: str = "",
    ) -> None:
        self._layout = layout
        self._acl = acl
        self._roles = roles
        self._own = own
        self._changed = changed
        self._options = options or {}
        self._in_kafka = in_kafka
        self.differing = 0  # other gateways with other options
        self._port: Port | None = None
        self._node = ""
        self._has_no_number = False
        self._looks = self._looks_again = False
        self._known: tuple[AnnouncedGateway, ...] = ()
        self._said: set[str] = set()

    def connected(self, port: Port, new: bool) -> None:
        """See `UsesSession`."""
        if new:
            self._node = ""
        self._port = port
        self._has_no_number = self._looks = self._looks_again = False
        port.watch(self._layout.gateways, WatchMode.PERSISTENT, lambda result: None)
        if self._node:
            return self._look(port)
        paths = with_parents([self._layout.gateways])
        return make_missing(port, paths, self._acl, lambda: self._announce(port))

    def fired(self, event: Fired) -> None:
        """See `UsesSession`."""
        if event.path == self._layout.gateways and self._port is not None:
            again, self._has_no_number = self._has_no_number, False
            look = self._announce if again else self._look
            look(self._port)

    def _announce(self, port: Port) -> None:
        data = encode_gateway(self._own.host, self._own.port, self._options, self._in_kafka)
        node = Create(
            self._layout.gateway_prefix, data, ephemeral=True, sequential=True, acl=self._acl
        )

        def answered(result: MultiResult) -> None:
            taken = isinstance(result, Rejected) and result.error is ZkError.NODE_EXISTS
            self._has_no_number = taken
            if isinstance(result, Committed) and isinstance(result.results[0], Created):
                self._node = result.results[0].path.rpartition("/")[2]
            elif taken:
                self._say(
                    "clients of other gateways do not learn of this one: a node below"
                    f" {self._layout.gateways} that is no gateway's has the number that is next;"
                    " delete it, and this gateway goes on by itself"
                )
            elif isinstance(result, Rejected):
                self._say(
                    f"clients of other gateways do not learn of this one: ZooKeeper refuses its"
                    f" node below {self._layout.gateways} ({result.error.value}); let it be one of"
                    " acl_coordinators"
                )
            self._look(port)

        port.multi([node], answered)

    def _look(self, port: Port) -> None:
        """One look at a time: an older one that ends later would tell of what was."""
        self._port = port
        if self._looks:
            self._looks_again = True
            return None
        self._looks = True
        if self._roles is None:
            return self._list(port)
        roles, gateways = self._roles, self._layout.gateways
        paths = (self._layout.epoch, parents(gateways)[-1], gateways)

        def judged(result: AclsResult) -> None:
            if not isinstance(result, AclsDone):
                return
            root, above, node = result.answers
            belief = Belief(roles, root)
            wrong = belief.closed(paths[1], above) or belief.closed(paths[2], node)
            if wrong:
                self._say(f"other gateways are not believed: {wrong}")
                self._looked(port, ())
            else:
                self._list(port)

        return port.acls(paths, judged)

    def _list(self, port: Port) -> None:
        def listed(result: ReadResult) -> None:
            if isinstance(result, ReadDone):
                answer = result.answers[0]
                names = answer.names if isinstance(answer, Children) else ()
                self._read(port, tuple(n for n in names if n != self._node)[:NODES_READ_MAX])

        port.read([GetChildren(self._layout.gateways)], listed)

    def _read(self, port: Port, names: tuple[str, ...], found: tuple[Said, ...] = ()) -> None:
        """In parts: a node may be long, and need be no gateway's."""
        part, later = names[:READ_AT_ONCE], names[READ_AT_ONCE:]
        if not part:
            return self._heard(port, found)

        def read(result: ReadResult) -> None:
            if not isinstance(result, ReadDone):
                return
            nodes = dict(zip(part, result.answers, strict=True))
            more = tuple(
                announced(name, answer.data, answer.stat.ephemeral_owner)
                for name, answer in nodes.items()
                if isinstance(answer, Node)
            )
            self._read(port, later, found + more)

        return port.read([GetData(f"{self._layout.gateways}/{name}") for name in part], read)

    def _heard(self, port: Port, found: tuple[Said, ...]) -> None:
        bad = [one for one in found if isinstance(one, Malformed)]
        for one in bad[:NAMED_MAX]:
            where = shown(f"{self._layout.gateways}/{one.name}")
            self._say(f"clients are not told of a gateway by {where}: {one.reason}")
        if len(bad) > NAMED_MAX:
            self._say(
                f"there are more nodes below {self._layout.gateways} that no gateway made: delete"
                " them"
            )
        there = [one for one in found if isinstance(one, AnnouncedGateway)]
        for gateway in there:
            if not is_host(gateway.host):
                self._say(
                    f"clients are not told of a gateway at {shown(gateway.host)}, which is no host:"
                    " begin it again with another --advertise"
                )
        others = tuple(gateway for gateway in there if is_host(gateway.host))
        self._looked(port, others[:GATEWAYS_MAX])

    def _looked(self, port: Port, others: tuple[AnnouncedGateway, ...]) -> None:
        again, self._looks, self._looks_again = self._looks_again, False, False
        self._tell(others)
        if again:
            self._look(port)

    def _tell(self, others: tuple[AnnouncedGateway, ...]) -> None:
        # what has this one's address is what it left behind, or will soon be gone; unless it is new
        mine = gateway_number(self._node)
        twins = [one for one in others if Address(one.host, one.port) == self._own]
        if mine is not None and any(one.number > mine for one in twins):
            self._say(
                f"another gateway tells its clients that it is at {self._own}, where this one is:"
                " begin it again with another --listen or --advertise"
            )
        others = tuple(one for one in others if one not in twins)
        own: tuple[AnnouncedGateway, ...] = ()
        if mine is not None:
            place = self._own.host, self._own.port
            own = (AnnouncedGateway(mine, *place, self._options, self._in_kafka),)
        if own + others != self._known:
            self._known = own + others
            places = ", ".join(str(Address(o.host, o.port)) for o in others)
            log.info("other gateways: %s", places or "none")
            self._compare(others)
            self._changed(self._known)

    def _compare(self, others: tuple[AnnouncedGateway, ...]) -> None:
        found = [(one, differing(self._options, one)) for one in others]
        self.differing = sum(1 for _, different in found if different)
        for one, different in found:
            if different:
                self._say(
                    f"the gateway at {Address(one.host, one.port)} was begun with another"
                    f" {' and another '.join(different)} than this one: clients of one group would"
                    " be treated differently by each; begin all gateways with the same options"
                )

    def _say(self, text: str) -> None:
        if text not in self._said and len(self._said) < SAID_MAX:
            self._said.add(text)
            log.warning("%s", text)
