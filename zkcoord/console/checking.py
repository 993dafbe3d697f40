"""What `zkcoord check` finds, for the pages: an examination of the whole ensemble in a thread of
its own, when somebody wants to see it and the last one is no longer new; one at a time.

It asks ZooKeeper only: what the brokers know beside that, `zkcoord check --kafka` says.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from zkcoord.check.examination import Examination
from zkcoord.check.rules import CheckFinding
from zkcoord.cli.groups_text import mode_lines
from zkcoord.core.model import GroupMode
from zkcoord.core.value_type import value
from zkcoord.errors import UnavailableError, UnknownGroupError, ZkcoordError
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupSnapshot, describe_group
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

AGAIN_MS = 60_000
FINDINGS_MAX = 1_000
LEGACY_MAX = 200
CLOSE_WAIT_S = 5.0


@value
class GroupOnItsWay:
    """A group with old consumers, or with a mode: what it is now, and what to do next."""

    name: str
    old: int
    ours: int
    mode: str
    lines: tuple[str, ...]
    next_step: str


@dataclass(frozen=True)
class Checked:
    """An examination, the worst first. `at_ms` (wall clock) 0: there was none yet; `left_out`:
    findings beyond `FINDINGS_MAX`.
    """

    at_ms: int = 0
    findings: tuple[CheckFinding, ...] = ()
    left_out: int = 0
    legacy: tuple[GroupOnItsWay, ...] = ()
    legacy_left_out: int = 0
    is_running: bool = False
    problem: str = ""


class Checker:
    """See the module. `told` is called on the thread when there is something new."""

    def __init__(self, options: ZkOptions, layout: Layout, told: Callable[[], None]) -> None:
        self._options = options
        self._layout = layout
        self._told = told
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._begun_ms = -AGAIN_MS
        self._thread: threading.Thread | None = None
        self._checked = Checked()

    def newest(self) -> Checked:
        """What is known; another examination begins where that is not new."""
        with self._lock:
            due = boot_ms() - self._begun_ms >= AGAIN_MS
            if due and not self._checked.is_running and not self._over.is_set():
                self._begun_ms = boot_ms()
                self._checked = replace(self._checked, is_running=True)
                self._thread = threading.Thread(
                    target=self._run, name="zkcoord-console-check", daemon=True
                )
                self._thread.start()
            return self._checked

    def close(self) -> None:
        """End the one that is under way."""
        self._over.set()
        thread = self._thread
        if thread is not None:
            thread.join(CLOSE_WAIT_S)

    def _run(self) -> None:
        found = replace(self._checked, is_running=False)
        try:
            found = self._examined()
        except ZkcoordError as error:
            found = replace(found, problem=str(error))
        except Exception:  # the thread's main: log and stop
            log.exception("an examination ended with an error that should not happen")
            found = replace(found, problem="it ended with an error, which the log has")
        with self._lock:
            self._checked = found
        self._told()

    def _examined(self) -> Checked:
        at_ms = wall_ms()
        with SyncClient(self._options) as reader:
            examination = Examination(
                reader, lambda _: True, None, 0.0, lambda: boot_ms() / 1000, self._over.wait
            )
            findings: list[CheckFinding] = []
            left_out = 0
            for finding in examination.findings():
                if self._over.is_set():
                    raise UnavailableError("the console ends")
                if len(findings) < FINDINGS_MAX:
                    findings.append(finding)
                else:
                    left_out += 1
            names = sorted(examination.shared)
            legacy = [one for name in names[:LEGACY_MAX] if (one := self._legacy(reader, name))]
        findings.sort(key=lambda finding: (finding.severity.rank, finding.group, finding.code))
        return Checked(
            at_ms, tuple(findings), left_out, tuple(legacy), max(0, len(names) - LEGACY_MAX)
        )

    def _legacy(self, reader: SyncClient, name: str) -> GroupOnItsWay | None:
        try:
            group = describe_group(reader, self._layout, name)
        except UnknownGroupError:
            return None  # it has gone
        old = sum(member.legacy for member in group.members.values())
        ours = len(group.members) - old
        mode = group.mode.kind.value if group.mode is not None else ""
        return GroupOnItsWay(name, old, ours, mode, tuple(mode_lines(group)), next_step(group))


NOT_BEGUN = "its old consumers are alone: docs/migration.md begins with zkcoord check"
BESIDE = (
    "its old consumers cannot be in a group of the layout draft, which this console looks at:"
    " beside them coordinators have the layout isolated"
)


def next_step(group: GroupSnapshot) -> str:
    """What an operator does next on the way from old consumers, in one sentence."""
    old = sum(member.legacy for member in group.members.values())
    ours = len(group.members) - old
    mode = group.mode.kind if group.mode is not None else None
    if mode is None and not group.members and group.layout is Layout.DRAFT:
        return BESIDE
    if mode is None:
        if old and ours:
            return "say whose it is: zkcoord groups mode GROUP mixed"
        return NOT_BEGUN if old else "nothing: it is the coordinator's"
    if mode is GroupMode.COORDINATED:
        return (
            f"stop its {old} old consumers: they are kept out" if old else "nothing: it has arrived"
        )
    if old:
        return f"replace its {old} old consumers one by one"
    return "zkcoord groups mode GROUP coordinated: no old consumer is left"
