"""A client that is stuck in its handler while another one joins, through the gateway and directly.

Three clients share 24 partitions under a steady load; the next handling of one of them takes 15 s,
and a fourth joins at once. How soon has it its first record, and how long does a partition fall
silent that was not the stuck client's: the longest time between two hand-outs of it, whoever gives
it out, from the join to the end of the handler (what has not come by then counts up to it).

The bars are those of `cooperative`. `range` gives each member a run of neighbours, in the order of
their names: it may give a partition of another client to the stuck one, and to the joiner nothing
but what the stuck one has. Then they wait for its handler, whoever coordinates.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.bench.figures import Bar, Row, Section
from tests.bench.gateway_changes import QUIET_S, started
from tests.bench.gateway_clients import COOPERATIVE, RANGE, Client, running, shares, when
from tests.bench.gateway_place import SIDES, THROUGH, Place
from tests.bench.running import say
from tests.gateway.clients import V3
from tests.harness.kafka import create_topic, unique
from zkcoord.errors import UnavailableError
from zkcoord.stack.process import owned_command

ROOT = Path(__file__).parents[2]
PARTITIONS = 24
PER_S = 480
HANG_S = 15
ROUNDS, QUICK_ROUNDS = 3, 1
KINDS, QUICK_KINDS = ("librdkafka", f"java {V3}"), ("librdkafka",)
SERVED_MS, SILENT_MS = 500.0, 300.0


@contextmanager
def load(broker: str, topic: str) -> Iterator[None]:
    """`PER_S` records a second, evenly over the partitions, inside the block."""
    where = ["--bootstrap-servers", broker, "--topic", topic]
    numbers = ["--partitions", str(PARTITIONS), "--rate", str(PER_S)]
    command = [sys.executable, "-m", "zkcoord.demo.producer", *where, *numbers]
    process = subprocess.Popen(owned_command(command), stdout=subprocess.DEVNULL, cwd=ROOT)
    try:
        yield
        if process.poll() is not None:
            raise UnavailableError(f"the producer ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()


def hand_outs(clients: Sequence[Client]) -> dict[int, list[float]]:
    """Partition -> when records of it were given out."""
    found: dict[int, list[float]] = {n: [] for n in range(PARTITIONS)}
    for client in clients:
        for event in list(client.events):
            if event.kind == "took":
                found[event.numbers[0]].append(event.at)
    return {n: sorted(times) for n, times in found.items()}


def silence_s(times: Sequence[float], since: float, until: float) -> float:
    """The longest gap within a time, its ends included."""
    inside = [since, *(at for at in times if since < at < until), until]
    return max(later - at for at, later in zip(inside, inside[1:]))


def once(
    place: Place, kind: str, strategy: str, side: str, served: list[float], silent: list[float]
) -> None:
    """One group, one stuck client and one join; adds to the times, in ms."""
    topic, group = create_topic(place.broker, unique("stuck"), PARTITIONS), unique("stuck")
    label = f"{unique('stuck')}-{side}"
    with running() as clients, load(place.broker, topic):
        begin = partial(started, place, kind, strategy, side, group, topic, clients)
        three = [begin(f"{label}-{n}") for n in range(3)]
        since = time.monotonic()
        for client in three:
            client.say("join")
        when(shares(three, PARTITIONS), since, "three share")
        fed = time.monotonic()
        when(lambda at: all(hand_outs(three).values()), fed, "records of each partition")
        joiner = begin(f"{label}-joiner")
        time.sleep(QUIET_S)
        stuck = three[0]
        healthy = frozenset(range(PARTITIONS)) - stuck.owned(time.monotonic())
        ordered = stuck.say(f"hang {HANG_S * 1000}")
        when(lambda at: stuck.said("hangs") is not None, ordered, "it is stuck")
        joiner.say("join")
        when(lambda at: stuck.said("goes on") is not None, ordered, "the end of the handler")
        four = [*three, joiner]
        when(lambda at: joiner.said("took") is not None, ordered, "the joiner's first record")
        joined, first, free = joiner.said("joins"), joiner.said("took"), stuck.said("goes on")
        assert joined is not None and first is not None and free is not None
        served.append(1000 * (first - joined))
        given = hand_outs(four)
        silent.append(1000 * max(silence_s(given[n], joined, free) for n in healthy))
        when(shares(four, PARTITIONS), ordered, "four share")


def setting(place: Place, kind: str, strategy: str, section: Section, rounds: int) -> None:
    """One kind of client and one assignor."""
    for side in SIDES:
        served: list[float] = []
        silent: list[float] = []
        for number in range(rounds):
            section.attempt(
                f"{kind}, {strategy}, {side}",
                partial(once, place, kind, strategy, side, served, silent),
            )
            shown = f"{served[-1]:,.0f} ms, silent {silent[-1]:,.0f} ms" if silent else "none"
            say(
                f"  stuck, {kind}, {strategy}, {side}: round {number + 1} of {rounds}: first"
                f" record {shown}"
            )
        for what, values, limit in (
            ("the joiner's first record", served, SERVED_MS),
            ("longest silence of others' partitions", silent, SILENT_MS),
        ):
            judged = side == THROUGH and strategy == COOPERATIVE
            bars = (Bar("max", limit),) if judged else ()
            section.rows.append(Row(f"{what}, {kind}, {strategy}", side, values, bars))


def run(place: Place, sections: list[Section], quick: bool) -> None:
    """The section."""
    title = f"A client stuck {HANG_S} s in its handler while a fourth joins, {PER_S} records/s"
    section = Section("stuck", title)
    sections.append(section)
    for kind in QUICK_KINDS if quick else KINDS:
        for strategy in (RANGE, COOPERATIVE):
            setting(place, kind, strategy, section, QUICK_ROUNDS if quick else ROUNDS)
