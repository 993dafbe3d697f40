"""What a coordinator says besides start and stop: notifications, words of an assignor, and
rejections that are not for good. The test is the coordinator.
"""

from __future__ import annotations

import json

from consumer.core import messages as msg
from tests.protocol.rig import GROUP, Member, Rig, tps
from tests.protocol.spy import deletes, shape
from zkcoord.core.model import Command, Option
from zkcoord.znodes import codec

T0, T1 = tps("t", 0, 1)


def send(
    rig: Rig,
    m: Member,
    option: Option,
    seq: int,
    code: str,
    message: str = "",
    fatal: bool = False,
    user_data: str | None = None,
) -> None:
    """One command by hand."""
    command = Command(
        m.member,
        rig.incarnation(m.member),
        option,
        5,
        seq,
        1,
        code=code,
        fatal=fatal,
        message=message,
        user_data=user_data,
    )
    rig.zk.create(
        rig.layout.command_prefix(GROUP, m.member, 5, seq),
        codec.encode_command(command),
        sequence=True,
    )


def served(rig: Rig, **options: object) -> Member:
    """A member that fetches two partitions."""
    rig.topic("t", 2)
    rig.reign()
    m = rig.member("m", "t", **options).joined()  # type: ignore[arg-type]
    rig.command(m.member, 1, start=(T0, T1))
    return m.fetches(T0, T1)


def test_a_notification_is_acked_by_a_checked_delete_and_changes_nothing(rig: Rig) -> None:
    m = served(rig)
    send(
        rig,
        m,
        Option.NOTIFY,
        2,
        "REBALANCE_FAILED",
        "ConsumerRebalanceFailedException: three evictions in a row",
    )
    m.wait(
        lambda: rig.commands(m.member) == [] and m.spy.multis(deletes("/channel/"))[-1].happened,
        "the ack",
    )
    ack = m.spy.multis(deletes("/channel/"))[-1]
    assert [s.split("-")[0] for s in shape(ack.ops)] == [
        f"Check ids/{GROUP}_m",
        "Delete " + m.member.split("-")[0],
    ]
    (told,) = m.notices(msg.NoticeKind.REBALANCE_FAILED)
    assert (
        "three evictions" in str(told.detail["message"])
        and m.fetching() == [T0, T1]
        and m.said(msg.Revoke) == []
    )
    assert m.commit({T0: 5}).outcome is msg.CommitOutcome.OK
    rig.command(m.member, 3, stop=(T1,))
    m.fetches(T0)
    assert len(m.notices(msg.NoticeKind.REBALANCE_OVER)) == 1


def test_the_end_of_a_quarantine_is_told(rig: Rig) -> None:
    m = served(rig)
    send(rig, m, Option.NOTIFY, 2, "REBALANCE_FAILED", "no good")
    send(rig, m, Option.NOTIFY, 3, "NONE", user_data="rack-1")
    m.wait(lambda: m.notices(msg.NoticeKind.REBALANCE_OVER), "the news")
    m.wait(lambda: rig.commands(m.member) == [], "the acks")
    assert [u.text for u in m.said(msg.UserData)] == ["rack-1"] and m.fetching() == [T0, T1]


def test_a_member_that_is_sent_away_for_a_while_comes_back_by_itself(rig: Rig) -> None:
    """It closes its session, so what it had is free at once, and returns under a new name after its
    backoff; nothing is raised.
    """
    m = served(rig, rejected_backoff_ms=50)
    first = m.member
    send(rig, m, Option.REJECT, 2, "GROUP_MAX_SIZE_REACHED", "the group has 2 members already")
    m.wait(lambda: len(m.notices(msg.NoticeKind.REGISTERED)) == 2, "its return")
    (away,) = m.notices(msg.NoticeKind.SENT_AWAY)
    assert away.detail["code"] == "GROUP_MAX_SIZE_REACHED" and away.detail["back_in_ms"] == 50
    assert (
        rig.names(rig.layout.ids(GROUP)) == [m.member]
        and m.member != first
        and rig.owners("t") == {}
        and m.said(msg.Failed) == []
    )
    assert [lost.partitions for lost in m.said(msg.Lost)] == [(T0, T1)] and m.spy.count(
        "close"
    ) == 1


def test_a_fatal_rejection_names_its_code(rig: Rig) -> None:
    m = served(rig)
    send(
        rig, m, Option.REJECT, 2, "INCONSISTENT_GROUP_PROTOCOL", "no assignor in common", fatal=True
    )
    m.wait(lambda: m.driver.finished, "its end")
    (failed,) = m.said(msg.Failed)
    assert (failed.code, failed.rejection) == (
        msg.FailureCode.REJECTED,
        "INCONSISTENT_GROUP_PROTOCOL",
    ) and failed.message == "INCONSISTENT_GROUP_PROTOCOL: no assignor in common"
    assert rig.names(rig.layout.ids(GROUP)) == [] and rig.owners("t") == {}


def test_what_a_member_tells_an_assignor_is_in_its_registration_and_can_change(rig: Rig) -> None:
    """A change is one multi in the same session; nothing stops."""
    m = served(rig, user_data="rack-0")

    def said() -> str:
        node = rig.node(rig.layout.registration(GROUP, m.member))
        assert node is not None
        return str(json.loads(node[0])["user_data"])

    assert said() == "rack-0"
    m.tell(msg.Subscribe(m.driver.core.state.wanted.subscription, "rack-1"))
    m.wait(lambda: said() == "rack-1", "the new registration")
    assert m.fetching() == [T0, T1] and m.said(msg.Revoke) == [] and len(m.names) == 1


def test_members_of_a_quarantined_group_learn_it_keep_what_they_have_and_hear_of_its_end(
    rig: Rig,
) -> None:
    """A member that acks no start is evicted and comes back, again and again. The others go on with
    what they have; when it is gone the group is whole again.
    """
    partitions = rig.topic("t", 4)
    c = rig.coordinator(
        max_rebalance_retries=2,
        quarantine_backoff_ms=200,
        quarantine_ms=60_000,
        lease_max_ms=300,
        lease_margin_ms=100,
    )
    good = rig.member("good", "t").fetches(*partitions)
    poison = rig.member("poison", rebalance_timeout_ms=300)
    poison.resolves_to = None
    rig.topic("u", 1)
    poison.subscribe("u")  # nothing is stored for it, so where to begin is asked for
    good.wait(lambda: good.notices(msg.NoticeKind.REBALANCE_FAILED), "the news")
    told, *_ = good.notices(msg.NoticeKind.REBALANCE_FAILED)
    assert "ConsumerRebalanceFailedException" in str(told.detail["message"])
    poison.leave()
    good.fetches(*partitions)
    good.wait(
        lambda: (
            len(good.notices(msg.NoticeKind.REBALANCE_OVER))
            == len(good.notices(msg.NoticeKind.REBALANCE_FAILED))
        ),
        "its end",
    )
    assert good.said(msg.Failed) == [] and len(good.names) == 1
    c.wait(lambda: not c.driver.core.writing, "rest")


def test_a_full_group_takes_a_member_in_when_a_place_is_free(rig: Rig) -> None:
    """The coordinator sends the newcomer away, it tries again by itself, and is served when the
    other has left.
    """
    partitions = rig.topic("t", 2)
    rig.coordinator(members_per_group_max=1)
    first = rig.member("first", "t").fetches(*partitions)
    second = rig.member("second", "t", rejected_backoff_ms=20)
    second.wait(lambda: len(second.notices(msg.NoticeKind.SENT_AWAY)) >= 2, "two refusals")
    assert [n.detail["code"] for n in second.notices(msg.NoticeKind.SENT_AWAY)][:2] == [
        "GROUP_MAX_SIZE_REACHED"
    ] * 2
    assert first.fetching() == list(partitions) and second.fetching() == []
    first.leave()
    second.fetches(*partitions)
    assert second.said(msg.Failed) == []
