"""The picture of the side by side: a field for each event and size, in it a bar for each system
from its smallest to its largest value, its median as a dot. Drawn from the report alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.side.systems import EVENTS, SYSTEMS

TITLES = {
    "join": "join",
    "leave": "clean leave",
    "crash": "kill -9 of a member",
    "slow": "join beside\na slow member",
    "coordinator": "kill -9 of the\ncoordinator, and a join",
}
OURS, OTHERS = "#0072B2", "#999999"
WIDTH_PER_SIZE_IN, LABELS_IN, HEIGHT_PER_BAR_IN, HEAD_IN = 3.6, 3.6, 0.24, 1.3
DPI = 130
LEFT_MS_MIN = 10.0

Cell = Mapping[str, Mapping[str, float]]


def cells(report: Mapping[str, Any]) -> dict[str, dict[int, Cell]]:
    """Event -> size -> system's label -> its figures (ms), as far as they are there."""
    labels = {system.label for system in SYSTEMS}
    found: dict[str, dict[int, dict[str, Mapping[str, float]]]] = {}
    for section in report["sections"]:
        for row in section["rows"] if section["name"] in EVENTS else ():
            size, _, label = row["what"].partition(" members: ")
            if label in labels:
                found.setdefault(section["name"], {}).setdefault(int(size), {})[label] = row
    return found


def ordered(of_event: Mapping[int, Cell]) -> list[str]:
    """The systems of an event, top down as in the table."""
    there = {label for cell in of_event.values() for label in cell}
    return [system.label for system in SYSTEMS if system.label in there]


def draw(report: Mapping[str, Any], path: Path) -> None:
    """Write the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = cells(report)
    events = [event for event in EVENTS if event in found]
    sizes = sorted({size for of_event in found.values() for size in of_event})
    heights = [len(ordered(found[event])) + 0.8 for event in events]
    figure, axes = pyplot.subplots(
        len(events),
        len(sizes),
        squeeze=False,
        sharex=True,
        figsize=(
            LABELS_IN + WIDTH_PER_SIZE_IN * len(sizes),
            HEAD_IN + HEIGHT_PER_BAR_IN * sum(heights),
        ),
        gridspec_kw={"height_ratios": heights},
        layout="constrained",
    )
    for event, of_axes in zip(events, axes):
        labels = ordered(found[event])
        for size, field in zip(sizes, of_axes):
            bars(field, labels, found[event].get(size, {}))
            if event == events[0]:
                field.set_title(f"{size} members", fontsize=11)
            if size != sizes[0]:
                field.set_yticklabels([])
        of_axes[0].set_ylabel(TITLES[event], fontsize=9, fontweight="bold")
    for field in axes[-1]:
        field.set_xlabel("ms, logarithmic")
    figure.suptitle(
        "How long until all that moves is handed out by its new owner: median, and from the"
        " smallest to the largest value",
        fontsize=11,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI)
    pyplot.close(figure)


def bars(field: Any, labels: Sequence[str], cell: Cell) -> None:
    """One field."""
    for at, label in enumerate(labels):
        row = cell.get(label)
        if row is None:
            continue
        colour = OURS if label.startswith("zkcoord") else OTHERS
        low, high = max(LEFT_MS_MIN, row["min"]), max(LEFT_MS_MIN, row["max"])
        field.plot(
            [low, high], [at, at], color=colour, linewidth=5, alpha=0.45, solid_capstyle="butt"
        )
        field.plot([max(LEFT_MS_MIN, row["median"])], [at], "o", color=colour, markersize=6)
        field.annotate(
            f"{row['median']:,.0f}",
            (high, at),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=colour,
        )
    field.set_xscale("log")
    field.set_xlim(LEFT_MS_MIN, 200_000)
    field.set_ylim(len(labels) - 0.4, -0.6)
    field.set_yticks(range(len(labels)), labels, fontsize=8)
    field.grid(axis="x", color="#dddddd", linewidth=0.6)
    field.set_axisbelow(True)
    for side in ("top", "right", "left"):
        field.spines[side].set_visible(False)
    field.tick_params(axis="y", length=0)
