"""Conformance scenarios of classic groups: short transcripts that are played against the machine,
and against a real broker.

A file under tests/core/classic/scenarios has many. A line `== NAME` begins one; then may follow

    from NAMES                     of Kafka's tests that say the same
    only machine: WHY              it is not played against a broker
    options NAME=VALUE ..          of the machine, other than `OPTIONS` (only machine)

and lines of what happens, of the form `WHO WHAT [KEY=VALUE ..] -> EXPECTED [~ A BROKER'S]`. What a
broker answers otherwise stands behind `~`, with the reason in the broker's test.

    a join     [id=] [i=INSTANCE|-] [type=] [p=NAME:DATA,..] [s=SESSION MS] [r=REBALANCE MS]
               [v=VERSION] [why=]
    a enter    the same, of a client without id: it asks for one first, where it has to
    a sync     [id=] [i=] [g=GENERATION] [type=|-] [p=|-] [give=a:DATA,..] [v=]
    a beat     [id=] [i=] [g=]
    a commit   [id=] [i=] [g=] [txn]
    a leave    [id=] [i=] [why=]
    admin leave a  a/  /INSTANCE  ghost/  ..     a batch; expected: code, then the codes of each
    describe | delete
    a gets     the answer to what it asked is there      a waits     it is not
    wait MS    time passes (`wait first`: until a group has formed)
    group a b:INSTANCE [KEY=VALUE ..]    all enter, are one generation, and stable: a leads, each
                                         has its name as assignment
    joined ..                            the same up to the answers to JoinGroup

`s=` and `r=` stay what they were. `id=` is own (what it was told last), new, ghost, old (before
that) or NAME (another client's); `g=` a number, or +N and -N from its own. Expected: `waits`, or a
code (of `describe`: a state), and of what else there is:

    gen=  type=  p=  led=NAME|NAME.old|?|-  id=own|new|none|ghost  skip  got=DATA
    m=NAME,..|-  meta=NAME:DATA,..  instances=  has=NAME:ASSIGNMENT,..    of members

Of the machine only, and passed over for a broker:

    told a,b | told -      whom it told to rejoin since the last time
    sent a:25,b:82 | sent -     who is no member any more, with the code of its next heartbeat
    is STATE [gen=N]       its state
    hold | ok | fail [CODE]     what is to be persisted waits; is; is not
    flow                   what waits is persisted, and so is everything after it
    written                it is persisted, and the machine has not heard of it
    restart                another machine goes on from what was persisted
    unload                 another coordinator has the group
    lower N                the bound of its size is lower
    why TEXT               the reason of its last move has this in it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from zkcoord.core.classic.requests import (
    ClassicBeat,
    ClassicDelete,
    ClassicDescribe,
    ClassicJoin,
    ClassicJoined,
    ClassicLeave,
    ClassicRequest,
    ClassicSync,
    CommitCheck,
    Leaver,
)
from zkcoord.core.classic.state import (
    ASSIGNMENT_BYTES_MAX,
    MEMBER_METADATA_BYTES_MAX,
    PROTOCOLS_MAX,
    ClassicOptions,
)

FOLDER = Path(__file__).parent / "scenarios"
INITIAL_DELAY_MS = 800
OPTIONS = ClassicOptions(initial_delay_ms=INITIAL_DELAY_MS, min_session_timeout_ms=100, max_size=4)
SIZES = {
    "LARGE": MEMBER_METADATA_BYTES_MAX,
    "LARGER": MEMBER_METADATA_BYTES_MAX + 1,
    "HUGE": ASSIGNMENT_BYTES_MAX + 1,
}
LONG_MS = 30_000
MACHINE_ONLY = (
    "told",
    "is",
    "hold",
    "flow",
    "ok",
    "fail",
    "restart",
    "unload",
    "why",
    "lower",
    "written",
    "sent",
)


@dataclass(frozen=True)
class Scenario:
    """`lines`: number in its file, text."""

    name: str
    lines: tuple[tuple[int, str], ...]
    like: str = ""
    only_machine: str = ""
    options: str = ""

    @property
    def differs(self) -> bool:
        """Whether a broker answers something otherwise."""
        return any(" ~ " in line for _, line in self.lines)


def _scenarios(path: Path) -> Iterator[Scenario]:
    blocks: list[tuple[str, list[tuple[int, str]]]] = []
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = raw.strip()
        if line.startswith("== "):
            blocks.append((line[3:], []))
        elif line and not line.startswith("#"):
            blocks[-1][1].append((number, line))
    for name, lines in blocks:
        heads = {"from ": "", "only machine: ": "", "options ": ""}
        rest = []
        for number, line in lines:
            head = next((h for h in heads if line.startswith(h)), None)
            if head is None:
                rest.append((number, line))
            else:
                heads[head] = line.removeprefix(head)
        yield Scenario(f"{path.stem}/{name}", tuple(rest), *heads.values())


def all_scenarios() -> list[Scenario]:
    """Of all files."""
    return [one for path in sorted(FOLDER.glob("*.txt")) for one in _scenarios(path)]


class Side(Protocol):
    """Who coordinates the group."""

    def send(self, request: ClassicRequest, version: int) -> int:
        """Ask; the ticket."""

    def answer(self, ticket: int, patient: bool) -> Any:
        """The answer, or None if there is none; `patient`: there should be one."""

    def wait(self, ms: int) -> None:
        """Time passes."""

    def machine_only(self, word: str, rest: list[str], names: dict[str, str]) -> str:
        """Something that is said of the machine; what is wrong with it."""


@dataclass
class Client:
    """One that asks, and what it was told."""

    name: str
    member_id: str = ""
    old_id: str = ""
    generation: int = -1
    instance: str | None = None
    protocol_type: str = "consumer"
    protocol: str = "range"
    session_ms: int = LONG_MS
    rebalance_ms: int = LONG_MS
    ticket: int = -1


class ScenarioError(AssertionError):
    """Something else than expected was answered, or nothing."""


def _pairs(text: str) -> tuple[tuple[str, bytes], ...]:
    if text == "MANY":
        return tuple((f"p{n}", b"") for n in range(PROTOCOLS_MAX + 1))
    parts = (part.partition(":") for part in text.split(",") if part not in ("", "-"))
    return tuple((name, b"x" * SIZES.get(data, 0) or data.encode()) for name, _, data in parts)


@dataclass
class Play:
    """One scenario on one side."""

    side: Side
    is_broker: bool = False
    clients: dict[str, Client] = field(default_factory=dict)
    count: int = 0

    def run(self, scenario: Scenario) -> None:
        """Raises `ScenarioError`."""
        for number, line in scenario.lines:
            try:
                self._line(line)
            except ScenarioError as error:
                raise ScenarioError(f"{scenario.name}, line {number}: {line}: {error}") from None

    def _line(self, line: str) -> None:
        head, _, brokers = line.partition(" ~ ")
        said, arrow, expected = head.partition(" -> ")
        words = said.split()
        if self.is_broker and brokers:
            expected = brokers
            words = words if arrow else [*words[:2], *brokers.split()]
        if words[0] in MACHINE_ONLY:
            if not self.is_broker:
                ids = {c.name: c.member_id for c in self.clients.values()}
                wrong = self.side.machine_only(words[0], words[1:], ids)
                _expect(not wrong, wrong)
        elif words[0] == "wait":
            self._wait(words[1])
        elif words[0] in ("group", "joined"):
            self._form(words[1:], words[0] == "group")
        elif words[0] in ("describe", "delete"):
            asked = ClassicDescribe() if words[0] == "describe" else ClassicDelete()
            self._check_ticket(Client(""), self.side.send(asked, 0), expected.split())
        elif words[:2] == ["admin", "leave"]:
            request = ClassicLeave(tuple(self._leaver(word) for word in words[2:]))
            self._check_ticket(Client(""), self.side.send(request, 4), expected.split())
        else:
            self._client_line(words, expected)

    def _wait(self, text: str) -> None:
        if text != "first":
            self.side.wait(int(text))
        elif not self.is_broker:  # there an answer is waited for
            self.side.machine_only("form", [], {})

    def _client_line(self, words: list[str], expected: str) -> None:
        client = self.clients.setdefault(words[0], Client(words[0]))
        what, keys = words[1], dict(w.split("=", 1) for w in words[2:] if "=" in w)
        if what == "gets":
            return self._check_ticket(client, client.ticket, words[2:])
        if what == "waits":
            return self._check_ticket(client, client.ticket, ["waits"])
        if "i" in keys:
            client.instance = None if keys["i"] == "-" else keys["i"]
        if what == "enter":
            version = int(keys.get("v", "9"))
            if client.instance is None and version >= 4:
                self._ask(client, "join", {**keys, "id": "new"}, words, "79 id=new")
                keys.pop("id", None)
                return self._ask(client, "join", keys, words, expected)
            return self._ask(client, "join", {**keys, "id": "new"}, words, expected)
        return self._ask(client, what, keys, words, expected)

    def _ask(
        self, client: Client, what: str, keys: dict[str, str], words: list[str], expected: str
    ) -> None:
        request = getattr(self, f"_{what}")(client, keys, words)
        default = {"join": 9, "sync": 5, "leave": 4}.get(what, 0)
        ticket = self.side.send(request, int(keys.get("v", default)))
        if what in ("join", "sync") or expected == "waits":
            client.ticket = ticket
        self._check_ticket(client, ticket, expected.split())

    # requests

    def _id(self, client: Client, text: str) -> str:
        ids = {"own": client.member_id, "new": "", "ghost": "ghost", "old": client.old_id}
        return ids[text] if text in ids else self.clients[text].member_id

    def _join(self, client: Client, keys: dict[str, str], words: list[str]) -> ClassicJoin:
        self.count += 1
        client.session_ms = int(keys.get("s", client.session_ms))
        client.rebalance_ms = int(keys.get("r", client.rebalance_ms))
        version = int(keys.get("v", "9"))
        protocols = _pairs(keys.get("p", "range:m"))
        return ClassicJoin(
            self._id(client, keys.get("id", "own")),
            f"{client.name}-{self.count}",
            keys.get("type", "consumer").replace("-", ""),
            protocols,
            client.session_ms,
            client.rebalance_ms,
            client.instance,
            named_first=version >= 4,
            may_skip=version >= 9,
            client_id=client.name,
            reason=keys.get("why", ""),
        )

    def _generation(self, client: Client, keys: dict[str, str]) -> int:
        text = keys.get("g", "+0")
        return client.generation + int(text) if text[0] in "+-" else int(text)

    def _sync(self, client: Client, keys: dict[str, str], words: list[str]) -> ClassicSync:
        old = int(keys.get("v", "5")) < 5
        kind, name = keys.get("type", client.protocol_type), keys.get("p", client.protocol)
        given = tuple((self._id(client, n), d) for n, d in _pairs(keys.get("give", "")))
        return ClassicSync(
            self._id(client, keys.get("id", "own")),
            self._generation(client, keys),
            client.instance,
            None if old or kind == "-" else kind,
            None if old or name == "-" else name,
            given,
        )

    def _beat(self, client: Client, keys: dict[str, str], words: list[str]) -> ClassicBeat:
        member_id = self._id(client, keys.get("id", "own"))
        return ClassicBeat(member_id, self._generation(client, keys), client.instance)

    def _commit(self, client: Client, keys: dict[str, str], words: list[str]) -> CommitCheck:
        member_id = self._id(client, keys.get("id", "own"))
        generation = -1 if keys.get("g") == "none" else self._generation(client, keys)
        return CommitCheck(member_id, generation, client.instance, "txn" in words)

    def _leave(self, client: Client, keys: dict[str, str], words: list[str]) -> ClassicLeave:
        member_id = self._id(client, keys.get("id", "own"))
        return ClassicLeave((Leaver(member_id, client.instance, keys.get("why", "")),))

    def _leaver(self, word: str) -> Leaver:
        name, slash, instance = word.partition("/")
        client = self.clients.get(name, Client(name, "ghost" if name else ""))
        return Leaver(client.member_id, (instance or None) if slash else client.instance)

    def _form(self, words: list[str], to_the_end: bool) -> None:
        extras = [w for w in words if "=" in w]
        names = [w.partition(":") for w in words if "=" not in w]
        for name, _, instance in names:
            more = [f"i={instance}"] if instance else []
            self._client_line([name, "enter", *extras, *more], "waits")
        self._wait("first")
        for name, _, _ in names:
            self._client_line([name, "gets", "0", "gen=1"], "")
        if to_the_end:
            give = ",".join(f"{name}:{name}" for name, _, _ in names)
            for name, _, _ in names:
                more = [f"give={give}"] if name == names[0][0] else []
                self._client_line([name, "sync", *more], f"0 got={name}")

    # answers

    def _check_ticket(self, client: Client, ticket: int, expected: list[str]) -> None:
        waits = expected == ["waits"]
        answer = self.side.answer(ticket, not waits)
        if waits:
            return _expect(answer is None, f"it was answered {answer}")
        _expect(answer is not None, "it was not answered")
        if isinstance(answer, ClassicJoined):
            self._take(client, answer)
            self._hear_of_others(client)
        for index, word in enumerate(expected):
            key, _, value = word.partition("=")
            if index == 0:
                said = getattr(answer, "state", "") if key.isalpha() else str(int(answer.code))
                _expect(said == key, f"{said}: {answer}")
            elif "," in key or (key.isdigit()):
                codes = ",".join(str(int(code)) for code in answer.members)
                _expect(codes == key, f"{codes}: {answer}")
            else:
                wrong = getattr(self, f"_is_{key}")(answer, client, value)
                _expect(not wrong, f"{key} is {wrong}: {answer}")
        return None

    def _hear_of_others(self, client: Client) -> None:
        """Whose ids are in the answer is known from their own."""
        for other in self.clients.values():
            if other is not client and other.ticket >= 0:
                answer = self.side.answer(other.ticket, False)
                if isinstance(answer, ClassicJoined):
                    self._take(other, answer)

    def _take(self, client: Client, answer: ClassicJoined) -> None:
        if answer.code == 79 or (answer.code == 0 and answer.member_id != client.member_id):
            client.old_id, client.member_id = client.member_id, answer.member_id
        if answer.code == 0:
            client.generation = answer.generation
            client.protocol_type = answer.protocol_type or client.protocol_type
            client.protocol = answer.protocol or ""

    def _name(self, member_id: str) -> str:
        if not member_id:
            return "-"
        for client in self.clients.values():
            if client.member_id == member_id:
                return client.name
            if client.old_id == member_id:
                return f"{client.name}.old"
        return f"somebody ({member_id})"

    def _named(self, ids: Iterable[str]) -> str:
        return ",".join(sorted(self._name(one) for one in ids)) or "-"

    def _is_gen(self, answer: Any, client: Client, value: str) -> str:
        return "" if answer.generation == int(value) else str(answer.generation)

    def _is_type(self, answer: Any, client: Client, value: str) -> str:
        said = answer.protocol_type or "-"
        return "" if said == value else said

    def _is_p(self, answer: Any, client: Client, value: str) -> str:
        said = answer.protocol or "-"
        return "" if said == value else said

    def _is_led(self, answer: Any, client: Client, value: str) -> str:
        said = self._name(answer.leader)
        return "" if said == value or (value == "?" and answer.leader) else said

    def _is_m(self, answer: Any, client: Client, value: str) -> str:
        said = self._named(peer.member_id for peer in answer.members)
        return "" if said == value else said

    def _is_meta(self, answer: Any, client: Client, value: str) -> str:
        said = {self._name(peer.member_id): peer.metadata for peer in answer.members}
        return "" if said == dict(_pairs(value)) else str(said)

    def _is_has(self, answer: Any, client: Client, value: str) -> str:
        said = {self._name(peer.member_id): peer.assignment for peer in answer.members}
        return "" if said == dict(_pairs(value)) else str(said)

    def _is_instances(self, answer: Any, client: Client, value: str) -> str:
        said = ",".join(sorted(peer.instance or "-" for peer in answer.members))
        return "" if said == value else said

    def _is_skip(self, answer: Any, client: Client, value: str) -> str:
        return "" if answer.skip_assignment is (value != "no") else "not"

    def _is_id(self, answer: Any, client: Client, value: str) -> str:
        said = answer.member_id
        right = {
            "own": said == client.member_id,
            "new": bool(said) and said != client.old_id,
            "none": not said,
            "old": said == client.old_id,
            "ghost": said == "ghost",
        }[value]
        return "" if right else said or "none"

    def _is_got(self, answer: Any, client: Client, value: str) -> str:
        said = answer.assignment.decode() or "-"
        return "" if said == value else said


def _expect(right: bool, wrong: str) -> None:
    if not right:
        raise ScenarioError(wrong)
