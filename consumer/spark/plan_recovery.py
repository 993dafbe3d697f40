"""A plan of Spark's log that this process did not make, or whose partitions it may have lost since:
which of its ranges are read now.

A range is read if its partition is owned and still stands where the range begins: then nobody has
gone on from there, and these are exactly the records that the batch had before. It is left out if
the partition went on without it: somebody else owns it, or its offset is another by now. Leaving
out is only safe where that is certain, because Spark will take the batch for written: so the offset
must have been touched since the plan was made (each start of a partition touches it), and until it
is known who owns a partition this waits. What remains unknown fails the query, which can be started
again.
"""

from __future__ import annotations

import enum
import logging
import shlex
import threading
import time

from consumer.spark.errors import UndecidedError
from consumer.spark.plan import Plan, PlannedRange, ranges_named
from consumer.spark.query_member import QueryMember
from consumer.spark.query_session import LOOK_S
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import (
    Check,
    Committed,
    Create,
    GetData,
    MultiResult,
    Node,
    Op,
    Port,
    ReadDone,
    Rejected,
    SetData,
    ZkError,
)
from zkcoord.znodes import codec

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 0.1


class RangeDecision(enum.Enum):
    """What becomes of a range."""

    READ = "it is ours, and stands where the range begins"
    GONE_ON = "somebody has gone on from there, or will"
    OPEN = "nobody owns it yet"


def replay(member: QueryMember, logged: Plan, patience_s: float) -> Plan:
    """What of `logged` is read now, with the fence of now, and known to fenced sinks. Raises
    `UndecidedError`, `MembershipError`.
    """
    deadline = time.monotonic() + patience_s
    running: Plan | None = None
    while running is None:
        member.session.check()
        decisions = _decide(member, logged)
        late = time.monotonic() >= deadline
        open_ = [
            r
            for r in logged.ranges
            if decisions.get(r.tp, RangeDecision.OPEN) is RangeDecision.OPEN
            and (late or (decisions and not member.reads(r.topic)))
        ]
        if late or open_:
            decisions = _decide_open(member, logged, decisions, open_)
        if decisions and RangeDecision.OPEN not in decisions.values():
            running = _replan(
                member,
                logged,
                {r.tp: r for r in logged.ranges if decisions[r.tp] is RangeDecision.READ},
            )
        if running is None and late:
            raise UndecidedError(
                f"batch {logged.number} must be read again, and the partitions of group"
                f" {member.options.group} moved, or ZooKeeper was away, whenever it was tried:"
                " start the query again"
            )
        if running is None:
            member.session.wait(LOOK_AGAIN_S)
    wanted = {r.tp for r in running.ranges}
    left = [str(r.tp) for r in logged.ranges if r.tp not in wanted]
    log.info(
        "plan %d is read again: %d of its %d ranges%s",
        logged.number,
        len(wanted),
        len(logged.ranges),
        f"; left out, because others have gone on from there: {', '.join(left)}" if left else "",
    )
    return running


def _replan(
    member: QueryMember, logged: Plan, wanted: dict[TopicPartition, PlannedRange]
) -> Plan | None:
    """These ranges as a plan of now, of which fenced sinks know; None if something moved
    meanwhile.
    """
    with member.assignment.lock:
        if not all(tp in member.assignment.owned for tp in wanted):
            return None
        for tp, r in wanted.items():
            member.assignment.owned[tp].in_flight = r
    running = member.planner.fence_plan(logged.number, wanted, (logged.incarnation, logged.number))
    return (
        running
        if running is not None
        and len(running.ranges) == len(wanted)
        and _publish(member, logged, running)
        else None
    )


def _decide(member: QueryMember, logged: Plan) -> dict[TopicPartition, RangeDecision]:
    """What becomes of each range; empty while this is no member, or its thread does not answer."""
    if not member.session.leased():
        return {}
    snapshot = member.session.snapshot()
    if snapshot is None:
        return {}
    with member.assignment.lock:
        owned = {
            r.tp for r in logged.ranges if r.tp in member.assignment.owned and r.tp in snapshot.held
        }
    owners = member.session.read_owners([r.tp for r in logged.ranges if r.tp not in owned])
    found: dict[TopicPartition, RangeDecision] = {}
    for r in logged.ranges:
        owner = owners.get(r.tp)
        if r.tp in owned:
            found[r.tp] = (
                RangeDecision.READ if snapshot.held[r.tp][0] == r.start else RangeDecision.GONE_ON
            )
        elif (
            owner is None
            or owner.thread.member == logged.member
            or owner.session == snapshot.session
        ):
            found[r.tp] = RangeDecision.OPEN
        else:
            found[r.tp] = RangeDecision.GONE_ON
    return found


def _decide_open(
    member: QueryMember,
    logged: Plan,
    decisions: dict[TopicPartition, RangeDecision],
    still: list[PlannedRange],
) -> dict[TopicPartition, RangeDecision]:
    """Time is up for these, or they will not be this query's: what was touched since the plan was
    made has gone on. Raises `UndecidedError` for the others.
    """
    result = (
        member.session.thread.read(
            [GetData(member.session.layout.offset(member.options.group, r.tp)) for r in still],
            LOOK_S,
        )
        if decisions
        else None
    )
    answers = result.answers if isinstance(result, ReadDone) else ()
    touched = {
        r.tp
        for r, answer in zip(still, answers, strict=False)
        if isinstance(answer, Node) and _touched(r, answer)
    }
    # of topics that the query does not subscribe to any more
    left = [r for r in still if decisions and r.tp not in touched and not member.reads(r.topic)]
    if left:
        raise UndecidedError(
            f"batch {logged.number} of this checkpoint was planned, and is not known to be written,"
            f" with {ranges_named(left)}; that is not what this query subscribes to, and nobody"
            " else of the group has it: start it once with these topics as well, until that batch"
            " is written, or use a new checkpointLocation"
        )
    undecided = [str(r.tp) for r in still if r.tp not in touched]
    if undecided:
        raise UndecidedError(
            f"batch {logged.number} must be read again, and nobody owns {', '.join(undecided)} yet:"
            " see that a coordinator runs (zkcoord groups describe"
            f" {shlex.quote(member.options.group)}) and that no member that is gone holds them,"
            " then start the query again"
        )
    return {
        r.tp: RangeDecision.GONE_ON if r.tp in touched else decisions[r.tp] for r in logged.ranges
    }


def _touched(r: PlannedRange, node: Node) -> bool:
    return node.stat.version > r.version or codec.decode_offset(str(r.tp), node.data) != r.start


def _publish(member: QueryMember, logged: Plan, running: Plan) -> bool:
    """Write which fence counts, for fenced sinks: one node that lives as long as this session.
    False: this is not the member any more, or ZooKeeper does not answer.
    """
    group, layout = member.options.group, member.session.layout
    path, data = (
        layout.replayed_plan(group, logged.incarnation, logged.number),
        codec.encode_replayed_plan(running.to_replayed()),
    )
    guard = Check(layout.registration(group, running.member), 0)
    multi(member, [Create(layout.replayed_plans(group), b"", acl=member.zk.acl)])
    result = multi(member, [guard, Create(path, data, ephemeral=True, acl=member.zk.acl)])
    if isinstance(result, Rejected) and result.error is ZkError.NODE_EXISTS:
        result = multi(member, [guard, SetData(path, data, -1)])
    return isinstance(result, Committed)


def multi(member: QueryMember, ops: list[Op]) -> MultiResult | None:
    """One multi through the member's session; None without an answer in time."""
    answers: list[MultiResult] = []
    done = threading.Event()

    def receive(result: MultiResult) -> None:
        answers.append(result)
        done.set()

    def send(port: Port) -> None:
        port.multi(ops, receive)

    member.session.thread.with_port(send)
    done.wait(LOOK_S)
    return answers[0] if answers else None
