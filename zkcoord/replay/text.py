"""What a coordinator's core was told and what it answered, one line each: for transcripts
(tests/core) and for `zkcoord replay`.

What has no line here is written with its name and its fields (`any_text`), so that nothing is ever
left out of a transcript.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from zkcoord.core import events as ev
from zkcoord.core.group.rebalance_log import DETAILS, ranges
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import assert_never


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """Partitions by topic and range: `t[0-3],u[1]`."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return ",".join(f"{t}[{ranges(ps)}]" for t, ps in by_topic.items()) or "nothing"


def action_text(action: ev.Action) -> str:
    """One action on one line."""
    match action:
        case ev.Write():
            return f"write {action.group}: " + "; ".join(op_text(op) for op in action.ops)
        case ev.ReadGroup():
            return f"read {action.group} ({action.why})"
        case ev.Resign():
            return f"resign: {action.reason}"
        case ev.Record():
            detail = " ".join(f"{k}={v}" for k, v in action.detail.items() if k not in DETAILS)
            return f"record {action.kind}{' ' + action.group if action.group else ''}: {detail}"
        case ev.Assign():
            return f"ask {action.assignor} for {action.group} #{action.token}"
        case _:
            assert_never(action)


def op_text(op: ev.WriteOp) -> str:
    """One operation of a write."""
    match op:
        case ev.Send():
            c = op.command
            what = f" {c.code}" if c.code else ""
            by_thread: dict[str, list[TopicPartition]] = {}
            for tp, thread in c.start.items():
                by_thread.setdefault(str(thread), []).append(tp)
            parts = " ".join(
                f"{t}={partitions_text(p)}" for t, p in sorted(by_thread.items())
            ) or partitions_text(c.stop)
            data = f" data={c.user_data}" if c.user_data is not None else ""
            return (
                f"{c.option.value}{what} {c.member} #{c.seq} g{c.generation}"
                f" {parts if not what else ''}".rstrip()
                + data
            )
        case ev.PutMetadata():
            m = op.metadata
            static = "".join(
                f" {d.instance}={partitions_text(d.partitions)}{' away' if d.since_ms else ''}"
                for d in m.departed
            )
            eager = f" {m.protocol}" if m.protocol != "cooperative" else ""
            return (
                f"metadata g{m.generation} {m.state.value} {m.assignor}{eager}"
                f" members={m.members}{static}{': ' + m.failure if m.failure else ''}"
                + (f" paused by {m.paused}" if m.paused else "")
            )
        case ev.DeleteCommand():
            return f"delete command {op.member}/{op.node}"
        case ev.DeleteRegistration():
            return f"delete registration {op.member}"
        case ev.DeleteOwner():
            return f"delete owner {op.partition}@{op.version}"
        case ev.DeleteRequest():
            return f"delete request {op.node}"
        case ev.DeleteChannel():
            return f"delete channel {op.member}"
        case ev.Rescue() | ev.KeepOut():
            return any_text(op)
        case _:
            assert_never(op)


def any_text(value: Any) -> str:
    """A dataclass by its name in words and its fields."""
    if not is_dataclass(value):
        return str(value)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(value).__name__).lower()
    return " ".join([words, *(f"{f.name}={_inner(getattr(value, f.name))}" for f in fields(value))])


def _inner(value: Any) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        return f"({any_text(value)})"
    if isinstance(value, (tuple, frozenset)) and not hasattr(value, "_fields"):
        return "[" + ",".join(_inner(one) for one in value) + "]"
    return str(getattr(value, "value", value))
