"""A group is of one kind: members that the coordinator assigns, or clients with a leader of their
own. On a real server.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from consumer.core import messages as msg
from consumer.member.joining import whose_group as whose_group_module
from tests.protocol.rig import GROUP, Member, Rig
from zkcoord.core.classic.requests import BlobRef, ClassicAnswer, ClassicJoin
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed, Registrants, TopicPartition
from zkcoord.znodes.classic.documents import (
    ClassicAsk,
    decode_answer,
    encode_ask,
    encode_state,
)
from zkcoord.znodes.classic.paths import ClassicPaths, request_name
from zkcoord.znodes.classic.pin import Machine, Pin, encode_pin
from zkcoord.znodes.paths import Layout

SAID = BlobRef("a" * 64, 3)
LED = ClassicState(
    ClassicPhase.STABLE,
    1,
    "connect",
    "own",
    "m",
    (ClassicMember("m", None, "worker", "h", 30_000, 30_000, (("own", SAID),)),),
)
EMPTY = ClassicState(ClassicPhase.EMPTY, 2)


@pytest.fixture(params=["draft", "isolated"])
def rig(zk_hosts: str, request: pytest.FixtureRequest) -> Iterator[Rig]:
    found = Rig(zk_hosts, Layout.DRAFT if request.param == "draft" else Layout.ISOLATED)
    yield found
    found.close()


def put(rig: Rig, path: str, data: bytes) -> None:
    rig.zk.ensure_path(path)
    rig.zk.set(path, data)


def kept_out(rig: Rig, member: Member, words: str) -> None:
    """It is told why, and nothing of it is left."""
    member.wait(
        lambda: any(words in failed.message for failed in member.said(msg.Failed)),
        f"that it is told: {words}",
    )
    (failed,) = member.said(msg.Failed)
    assert failed.code is msg.FailureCode.REJECTED
    assert member.fetching() == [] and member.member not in rig.names(rig.layout.ids(GROUP))


def test_a_shim_is_kept_out_of_a_group_that_clients_lead(rig: Rig) -> None:
    rig.topic("t", 2)
    rig.coordinator()
    paths = ClassicPaths(rig.layout)
    put(rig, paths.state(GROUP), encode_state(LED))
    kept_out(
        rig, rig.member("early", "t"), "is led by one of its 1 clients (protocol type connect)"
    )
    put(rig, paths.state(GROUP), encode_state(EMPTY))
    later = rig.member("later", "t")
    later.fetches(TopicPartition("t", 0), TopicPartition("t", 1))


def test_clients_that_came_first_are_seen_after_it_registered(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look and its registration a client was let in."""
    rig.topic("t", 2)
    rig.coordinator()
    put(rig, ClassicPaths(rig.layout).state(GROUP), encode_state(LED))
    real, looks = whose_group_module.led_by_clients, iter(["not yet"])

    def blind_once(*args: object, **more: object) -> str:
        return "" if next(looks, None) else real(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(whose_group_module, "led_by_clients", blind_once)
    member = rig.member("m", "t")
    kept_out(rig, member, "is led by one of its 1 clients")


def test_an_operators_word_keeps_shims_out(rig: Rig) -> None:
    rig.topic("t", 2)
    rig.coordinator()
    pin = ClassicPaths(rig.layout).pin(GROUP)
    put(rig, pin, encode_pin(Pin(Machine.CLIENT_LED)))
    kept_out(rig, rig.member("early", "t"), "zkcoord groups machine")
    rig.zk.delete(pin)
    first = rig.member("first", "t").joined()
    put(rig, pin, encode_pin(Pin(Machine.CLIENT_LED)))
    kept_out(rig, rig.member("second", "t"), "zkcoord groups machine")
    assert not first.said(msg.Failed), "who is a member stays one until it stops"


def asks(rig: Rig) -> ClassicAnswer:
    """A gateway's client would lead the group: what the coordinator answers."""
    join = ClassicJoin("", "fresh", "connect", (("own", b"x"),), 30_000, 30_000)
    path, name = "", request_name(GROUP)
    path = ClassicPaths(rig.layout).request(name)
    rig.zk.ensure_path(ClassicPaths(rig.layout).requests)
    rig.zk.create(path, encode_ask(ClassicAsk(GROUP, join))[0], ephemeral=True)
    found: list[ClassicAnswer] = []

    def answered() -> bool:
        data, _ = rig.zk.get(path)
        answer = decode_answer(name, data)
        assert not isinstance(answer, Malformed), answer
        found.extend([answer] if answer is not None else [])
        return bool(found)

    rig.procs[0].wait(answered, "an answer")
    rig.zk.delete(path)
    return found[0]


def test_a_client_that_would_lead_is_refused_while_a_shim_is_registered(rig: Rig) -> None:
    rig.topic("t", 2)
    coordinator = rig.coordinator()
    member = rig.member("m", "t")
    member.fetches(TopicPartition("t", 0), TopicPartition("t", 1))
    assert asks(rig).code is WireCode.INCONSISTENT_GROUP_PROTOCOL
    (refusal,) = coordinator.records("client-led refusal")
    assert "members that the coordinator assigns" in str(refusal["reason"])
    member.leave()
    coordinator.wait(
        lambda: coordinator.driver.core.registered(GROUP) is Registrants.NOBODY,
        "that it has no members",
    )
    assert asks(rig).code is WireCode.MEMBER_ID_REQUIRED


def test_an_operators_word_reaches_the_coordinator(rig: Rig) -> None:
    rig.coordinator()
    pin = ClassicPaths(rig.layout).pin(GROUP)
    put(rig, pin, encode_pin(Pin(Machine.COORDINATED)))
    assert asks(rig).code is WireCode.INCONSISTENT_GROUP_PROTOCOL
    rig.zk.delete(pin)
    assert asks(rig).code is WireCode.MEMBER_ID_REQUIRED
