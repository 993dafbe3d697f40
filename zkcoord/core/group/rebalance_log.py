"""The story of one group's rebalances: cause, trigger, durations, who was waited for. Feeds the
journal; decides nothing.
"""

from __future__ import annotations

from zkcoord.core.events import Record
from zkcoord.core.model import Cause, Command, GroupState, Option, Owner
from zkcoord.core.target import TargetAssignment

from .view import GroupView

WAITED_FOR_MAX = 8
STEPS_MAX = 64
DETAILS = frozenset({"waited_for", "owned", "steps", "decided_ms"})
"""What only the journal has of a rebalance: logs and transcripts are for reading."""

OWNERSHIP_PARTITIONS_MAX = 500
OWNED_PARTITIONS_MAX = 2_000
"""Of a group whose record says who owns what: some 40 KB at most, and a millisecond."""

TAKEOVER = "coordinator took over"


class RebalanceLog:
    """From the first change to the moment every partition is where the target has it."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.began_ms: int | None = None
        self.takeover = False
        self.cause = Cause()
        self.moved = 0
        self.unassigned = 0
        self.commands: dict[Option, int] = {}
        self.sent_ms: dict[str, tuple[int, Option]] = {}
        self.decided_ms = 0
        # by member and what it was told: when, from the beginning on, and how long it took
        self.steps: dict[tuple[str, str], tuple[int, int]] = {}
        self.waited_ms: dict[str, int] = {}
        self.done: list[tuple[int, Cause, dict[str, object]]] = []

    def begin(self, now_ms: int, cause: Cause) -> None:
        """A change that calls for a new target; the first one names the rebalance. A takeover names
        it in any case: what was read then is not news.
        """
        self.takeover = cause.reason == TAKEOVER
        if self.began_ms is None or self.takeover:
            self.began_ms, self.cause = now_ms, cause
            self.moved = self.unassigned = 0
            self.commands = {}
            self.waited_ms = {}
            self.steps = {}
            self.decided_ms = now_ms

    def left_alone(self) -> None:
        """Nothing may be commanded, so nothing is rebalanced."""
        self.began_ms = None

    def assigned(self, now_ms: int, moved: int, result: TargetAssignment) -> None:
        """A target was computed; `moved` partitions are not where it wants them."""
        self.moved += moved
        self.decided_ms = now_ms
        self.unassigned = len(result.unassigned)

    def sent(self, now_ms: int, command: Command) -> None:
        """A command was created."""
        self.commands[command.option] = self.commands.get(command.option, 0) + 1
        self.sent_ms[command.member] = now_ms, command.option

    def acked(self, now_ms: int, member: str) -> None:
        """A member's command is gone: acked, or withdrawn."""
        sent = self.sent_ms.pop(member, None)
        if sent is None:
            return
        sent_ms, option = sent
        self.waited_ms[member] = max(self.waited_ms.get(member, 0), now_ms - sent_ms)
        if self.began_ms is not None:
            at_ms = max(0, sent_ms - self.began_ms)
            self.steps[member, option.value] = at_ms, now_ms - sent_ms

    def state(
        self, now_ms: int, state: GroupState, view: GroupView, result: TargetAssignment
    ) -> None:
        """The group changed state; at rest, the rebalance is over."""
        if self.began_ms is None or state not in (
            GroupState.STABLE,
            GroupState.EMPTY,
            GroupState.QUARANTINED,
        ):
            return
        if self.takeover and not self.commands:
            self.began_ms = None
            return
        slowest = sorted(self.waited_ms.items(), key=lambda item: (-item[1], item[0]))[
            :WAITED_FOR_MAX
        ]
        detail: dict[str, object] = {
            "cause": self.cause.reason,
            "trigger": self.cause.trigger,
            "duration_ms": now_ms - self.began_ms,
            "moved": self.moved,
            "stops": self.commands.get(Option.STOP, 0),
            "starts": self.commands.get(Option.START, 0),
            "members": len(view.members),
            "unassigned": self.unassigned,
            "assignor": result.assignor,
            "state": state.value,
            "waited_for": [{"member": m, "ms": ms} for m, ms in slowest],
            "decided_ms": self.decided_ms - self.began_ms,
            # in an order that is the same whichever answer of one moment is looked at first
            "steps": [
                {"member": member, "option": option, "at_ms": at_ms, "ms": ms}
                for (at_ms, ms), member, option in sorted(
                    (times, *told) for told, times in self.steps.items()
                )[:STEPS_MAX]
            ],
        }
        if len(view.owners) <= OWNED_PARTITIONS_MAX:
            detail["owned"] = owned(view)
        self.done.append((now_ms, self.cause, detail))
        self.began_ms = None

    def take_records(self, generation: int) -> list[Record]:
        """The rebalances that ended since the last call."""
        if not self.done:
            return []
        records = [
            Record("rebalance", self.group, {"generation": generation, **detail})
            for _, _, detail in self.done
        ]
        self.done.clear()
        return records

    def ownership(self, view: GroupView) -> str:
        """Who owns what, by ranges, while that is small: `member=topic[0-3,7] ...`; else empty."""
        if len(view.owners) > OWNERSHIP_PARTITIONS_MAX:
            return ""
        return " ".join(
            f"{m}={','.join(f'{t}[{numbers}]' for t, numbers in topics.items())}"
            for m, topics in owned(view).items()
        )


def owned(view: GroupView) -> dict[str, dict[str, str]]:
    """What each member that owns something owns, by ranges: {member: {topic: "0-3,7"}}."""
    held: dict[str, dict[str, list[int]]] = {}
    for tp in sorted(view.owners):
        owner = view.owners[tp]
        holder = view.by_session.get(owner.session) if isinstance(owner, Owner) else None
        if holder is not None:
            held.setdefault(holder, {}).setdefault(tp.topic, []).append(tp.partition)
    return {m: {t: ranges(ps) for t, ps in topics.items()} for m, topics in sorted(held.items())}


def ranges(numbers: list[int]) -> str:
    """Sorted numbers as ranges: [0, 1, 2, 5] -> "0-2,5"."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in parts)


def membership_cause(news: list[str], joined: list[str], left: list[str]) -> Cause:
    """Why a target is wanted: the first that joined, else that left, else that changed."""
    for names, why in ((joined, "member joined"), (left, "member left")):
        first = next((n for n in news if n in names), None)
        if first is not None:
            return Cause(why, first)
    return Cause("subscription changed", news[0])
