"""Outcomes as text and as JSON, and the bar that shows how far it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from migrations.model import Change, KafkaOffset, ZkNote
from migrations.running import GroupOutcome
from migrations.runs import Run
from migrations.steps import MigrationStep
from zkcoord.admin.offsets.time_spec import shown_time
from zkcoord.cli.groups_text import MISSING
from zkcoord.text_table import table
from zkcoord.words import counted

COLUMNS = (("GROUP", 25), ("STATE", 12), ("ZOOKEEPER", 10), ("KAFKA", 10), ("UNCHANGED", 0))
RUN_COLUMNS = (("RUN", 40), ("STARTED", 25), ("GROUPS", 8), ("DONE", 8), ("ENDED", 0))
STATES = ("done", "done before", "to do", "same", "refused")


class Bar:
    """A progress bar on standard error. Raises `ModuleNotFoundError` where rich is not
    installed.
    """

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("groups"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task("groups", total=total)

    def __enter__(self) -> Callable[[int], None]:
        self._progress.start()
        return lambda count: self._progress.advance(self._task, count)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()


def table_of(outcomes: Sequence[GroupOutcome], verbose: bool) -> str:
    """A row per group, what stands against it below, and the sum."""
    rows = []
    for outcome in outcomes:
        shown = outcome.to_json()
        rows.append(
            [
                outcome.plan.group,
                outcome.state,
                str(shown["zookeeper_changes"]),
                str(shown["kafka_changes"]),
                str(outcome.plan.same),
            ]
        )
    lines = [table(COLUMNS, rows).rstrip("\n")] if rows else []
    for outcome in outcomes:
        lines += [f"{outcome.plan.group}: {reason}" for reason in outcome.reasons]
        lines += [f"{outcome.plan.group}: note: {warning}" for warning in outcome.plan.warnings]
        lines += (
            [f"{outcome.plan.group}: {_shown(change)}" for change in outcome.plan.changes]
            if verbose
            else []
        )
    counts = figures(outcomes)
    said = ", ".join(f"{counts[state]} {state}" for state in STATES if counts.get(state))
    return (
        "\n".join([*lines, counted(len(outcomes), "group") + (f": {said}" if said else "")]) + "\n"
    )


def _shown(change: Change) -> str:
    if isinstance(change, ZkNote):
        return (
            f"the offsets of {change.topic} are said to be of"
            f" {change.after or 'no topic in particular'}"
            + (f" (was {change.before})" if change.before else "")
        )
    return (
        f"{change.tp} in {'Kafka' if isinstance(change, KafkaOffset) else 'ZooKeeper'}:"
        f" {_value(change.before)} -> {_value(change.after)}"
    )


def _value(offset: int | None) -> str:
    return MISSING if offset is None else str(offset)


def figures(outcomes: Sequence[GroupOutcome]) -> dict[str, int]:
    """Groups by state."""
    return dict(Counter(outcome.state for outcome in outcomes))


def report(command: str, what: str, outcomes: Sequence[GroupOutcome]) -> dict[str, Any]:
    """All of it."""
    return {
        "command": command,
        "migration": what,
        "figures": figures(outcomes),
        "groups": [outcome.to_json() for outcome in outcomes],
    }


def listing(steps: Sequence[MigrationStep], runs: Sequence[Run]) -> str:
    """Steps, and runs."""
    lines = [f"{step.number:04d}  {step.name}: {step.title}" for step in steps]
    rows = [
        [
            run.folder.name,
            shown_time(run.told.run["time_ms"]),
            str(len(run.told.first)),
            str(len(run.told.done)),
            "yes" if run.told.ended else "no",
        ]
        for run in runs
    ]
    return "\n".join(lines) + "\n" + (table(RUN_COLUMNS, rows) if rows else "")
