"""What a gateway asks the elected coordinator about client-led groups: each request is a node that
ends with the gateway's session, and the answer is written into it. Whoever coordinates then answers
it, so nothing is to be done when that changes.

What was not answered when a session ended is asked again on the next one, but for JoinGroups that
take an instance over, which clients repeat. Bounded: so many requests
wait, and so many bytes of them; each has its time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from consumer.member.joining.missing_nodes import make_missing, with_parents
from zkcoord.core.classic.requests import (
    ClassicAnswer,
    ClassicDelete,
    ClassicJoin,
    classic_refusal,
)
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed
from zkcoord.zk.port import (
    AclEntry,
    Change,
    Committed,
    Create,
    Delete,
    Fired,
    GetData,
    MultiResult,
    Node,
    Op,
    Port,
    ReadDone,
    ReadResult,
    Rejected,
    SetData,
    WatchMode,
    ZkError,
)
from zkcoord.zk.wakes import Wakes
from zkcoord.znodes.classic.documents import ClassicAsk, decode_answer, encode_ask
from zkcoord.znodes.classic.paths import ClassicPaths, request_name

log = logging.getLogger(__name__)

ASKS_MAX = 20_000
ASKS_BYTES_MAX = 128 * 1024 * 1024
LOST_MAX = 3

Answered = Callable[[ClassicAnswer], None]


@dataclass(slots=True, eq=False)
class OpenAsk:
    """A request that is not answered yet. `data`: its node's, and its parts'; `may`: what shows
    that its gateway may ask that.
    """

    ask: ClassicAsk
    data: list[bytes]
    until_ms: int
    answered: Answered | None
    name: str
    may: Sequence[Op] = ()
    has_roots: bool = False
    lost: int = 0
    wake_ms: int | None = None

    @property
    def size(self) -> int:
        """Of all its nodes."""
        return sum(map(len, self.data))


def _takes_an_instance(ask: ClassicAsk) -> bool:
    """Whether it would fence who has its instance. While a session was over its client may have
    come by another gateway, without this one's knowing: it would be fenced by itself.
    """
    join = ask.request
    return isinstance(join, ClassicJoin) and join.instance is not None and not join.member_id


class Asking:
    """See the module. `new_name` names requests about a group. Everything here runs on the members'
    loop.
    """

    def __init__(
        self, paths: ClassicPaths, acl: tuple[AclEntry, ...], clock: Callable[[], int]
    ) -> None:
        self.new_name: Callable[[str], str] = request_name
        self._paths = paths
        self._acl = acl
        self._clock = clock
        self._port: Port | None = None
        self._open: dict[str, OpenAsk] = {}  # by the path of its node
        self._bytes = 0
        self._wakes: Wakes[OpenAsk] = Wakes()
        self._told: set[ZkError] = set()

    @property
    def waiting(self) -> int:
        """How many are not answered."""
        return len(self._open)

    def ask(self, ask: ClassicAsk, within_ms: int, answered: Answered) -> OpenAsk | None:
        """Ask, and hear the answer once, unless it is taken back; None: it was refused at once."""
        data = encode_ask(ask)
        until_ms, may = self._clock() + within_ms, self._may(ask)
        one = OpenAsk(ask, data, until_ms, answered, self.new_name(ask.group), may)
        if len(self._open) >= ASKS_MAX or self._bytes + one.size > ASKS_BYTES_MAX:
            answered(classic_refusal(ask.request, WireCode.COORDINATOR_LOAD_IN_PROGRESS))
            return None
        self._bytes += one.size
        self._open[self._paths.request(one.name)] = one
        self._wakes.note(one, one.until_ms)
        self._send(one)
        return one

    def _may(self, ask: ClassicAsk) -> Sequence[Op]:
        """Deleting a group is not for members."""
        if not isinstance(ask.request, ClassicDelete):
            return ()
        return (SetData(self._paths.proof(ask.group), b"", -1),)

    def take_back(self, one: OpenAsk) -> None:
        """Nobody waits for the answer any more."""
        self._end(one, None)

    # the session

    def connected(self, port: Port, new: bool) -> None:
        """See `UsesSession`."""
        self._port = port
        for path, one in tuple(self._open.items()):
            if new and _takes_an_instance(one.ask):
                self._give_up(one)
            elif new:
                self._ask_anew(one)
            else:
                port.watch(path, WatchMode.PERSISTENT, lambda result: None)
                self._look(one)

    def fired(self, event: Fired) -> bool:
        """See `UsesSession`; whether it is one of what was asked."""
        one = self._open.get(event.path)
        if one is not None and event.change is not Change.CREATED:
            self._look(one)
        return event.path.startswith(f"{self._paths.requests}/")

    def _send(self, one: OpenAsk, part: int = 1) -> None:
        """The parts before the request itself, which is what the coordinator looks for."""
        port = self._port
        if port is None:
            return
        path, name = self._paths.request(one.name), one.name

        def made(result: MultiResult) -> None:
            if one.name != name or one.answered is None:
                return
            if isinstance(result, Rejected) and not result.index and one.may:
                self._may_not(one, result.error)
            elif isinstance(result, Rejected) and result.error is not ZkError.NODE_EXISTS:
                self._refused(port, one, result.error)
            elif isinstance(result, Committed | Rejected) and part < len(one.data):
                self._send(one, part + 1)

        if part < len(one.data):
            self._create(port, (), self._paths.part(name, part), one.data[part], made)
        else:
            port.watch(path, WatchMode.PERSISTENT, lambda result: None)
            self._create(port, one.may, path, one.data[0], made)

    def _create(
        self,
        port: Port,
        may: Sequence[Op],
        path: str,
        data: bytes,
        made: Callable[[MultiResult], None],
    ) -> None:
        port.multi([*may, Create(path, data, ephemeral=True, acl=self._acl)], made)

    def _may_not(self, one: OpenAsk, error: ZkError) -> None:
        """Of a group of which nothing is written the coordinator says what there is."""
        if error is ZkError.NO_NODE:
            one.may = ()
            return self._send(one)
        denied = error is ZkError.NO_AUTH
        code = WireCode.GROUP_AUTHORIZATION_FAILED if denied else WireCode.COORDINATOR_NOT_AVAILABLE
        return self._answer(one, classic_refusal(one.ask.request, code))

    def _refused(self, port: Port, one: OpenAsk, error: ZkError) -> None:
        if error is ZkError.NO_NODE and not one.has_roots:
            # where there are roles the coordinator has made them
            one.has_roots = True
            paths = with_parents(self._paths.roots())
            return make_missing(port, paths, self._acl, lambda: self._send(one))
        if error not in self._told:
            self._told.add(error)
            log.warning(
                "groups whose leader is a client cannot be served: ZooKeeper refuses what is asked"
                " below %s (%s)",
                self._paths.requests,
                error.value,
            )
        return self._give_up(one)

    def _look(self, one: OpenAsk) -> None:
        port, name = self._port, one.name
        if port is None:
            return

        def read(result: ReadResult) -> None:
            if not isinstance(result, ReadDone) or one.name != name or one.answered is None:
                return  # what the connection's end leaves open is looked at on the next one
            (node,) = result.answers
            if not isinstance(node, Node):
                self._gone(one)
            elif (answer := decode_answer(name, node.data)) is not None:
                self._answer(one, answer)

        port.read([GetData(self._paths.request(name))], read)

    def _gone(self, one: OpenAsk) -> None:
        """Its node was not made when the connection was lost, or it was deleted: by a coordinator
        that could not read it, or somebody else. It is asked again, a few times.
        """
        one.lost += 1
        if one.lost > LOST_MAX:
            return self._give_up(one)
        return self._ask_anew(one)

    def _ask_anew(self, one: OpenAsk) -> None:
        del self._open[self._paths.request(one.name)]
        one.name = self.new_name(one.ask.group)
        self._open[self._paths.request(one.name)] = one
        self._send(one)

    def _answer(self, one: OpenAsk, answer: ClassicAnswer | Malformed) -> None:
        if isinstance(answer, Malformed):
            log.warning("the coordinator's answer cannot be read: %s", answer)
            return self._give_up(one)
        return self._end(one, answer)

    def _give_up(self, one: OpenAsk) -> None:
        refusal = classic_refusal(one.ask.request, WireCode.COORDINATOR_NOT_AVAILABLE)
        self._end(one, refusal)

    def _end(self, one: OpenAsk, answer: ClassicAnswer | None) -> None:
        if one.answered is None:
            return
        answered, one.answered = one.answered, None
        path = self._paths.request(one.name)
        del self._open[path]
        self._bytes -= one.size
        self._wakes.note(one, None)
        if self._port is not None:
            self._port.unwatch(path, lambda result: None)
            nodes = [path, *(self._paths.part(one.name, n) for n in range(1, len(one.data)))]
            for node in nodes:  # what is missing of them must not keep the others
                ops: list[Op] = [Delete(node)]
                self._port.multi(ops, lambda result: None)
        if answer is not None:
            answered(answer)

    # time

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self._wakes.next_ms()

    def tick(self) -> None:
        """Give up what has waited for too long."""
        now = self._clock()
        while (one := self._wakes.pop(now)) is not None:
            self._give_up(one)
