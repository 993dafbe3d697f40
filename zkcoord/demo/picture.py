"""The picture of a run: time to the right, one row per partition, the owner as its colour, white
where nobody owned it; events as labelled lines; below it the records handed out per second.

matplotlib is only needed here. Colours are distinguishable for most colour-blind people (Okabe and
Ito's, extended) and a member keeps its colour; its name is also written into its bars.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zkcoord.demo.timeline import BIN_NS, Interval, Timeline
from zkcoord.errors import ScenarioError

COLOURS = (
    "#56B4E9",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#999999",
    "#8C6BB1",
    "#66C2A5",
)
TITLE = "Who owned which partition, when: one consumer group through joins, leaves and crashes"
WIDTH_IN, HEIGHT_IN, DPI = 13.0, 7.4, 110
LABEL_ROWS = 3
CHARACTER_SHARE, LABEL_STEP = 0.0058, 0.078
LINE: dict[str, Any] = {"color": "#222222", "linewidth": 0.9, "linestyle": (0, (4, 2))}
NAME_SHARE_MIN, NAME_PAD_SHARE = 0.03, 0.004


def draw(timeline: Timeline, path: Path, subtitle: str) -> None:
    """Write the picture. Raises `ScenarioError` when matplotlib is not there."""
    try:
        import matplotlib
    except ImportError:
        raise ScenarioError(
            "the picture needs matplotlib: install it with pip install matplotlib"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure, (top, bottom) = pyplot.subplots(
        2,
        1,
        sharex=True,
        figsize=(WIDTH_IN, HEIGHT_IN),
        gridspec_kw={"height_ratios": (6, 1), "hspace": 0.07},
        constrained_layout=False,
    )
    seconds = max(1.0, (timeline.end_ns - timeline.start_ns) / 1e9)
    _owners(top, timeline, seconds)
    _marks((top, bottom), timeline, seconds)
    _rate(bottom, timeline, seconds)
    figure.suptitle(TITLE, x=0.055, y=0.985, ha="left", fontsize=14, fontweight="bold")
    figure.text(0.055, 0.937, subtitle, fontsize=10, color="#444444")
    figure.subplots_adjust(left=0.055, right=0.99, top=0.80, bottom=0.075)
    figure.savefig(path, dpi=DPI)
    pyplot.close(figure)


def _seconds(timeline: Timeline, t_ns: int) -> float:
    return (t_ns - timeline.start_ns) / 1e9


def _owners(axes: Any, timeline: Timeline, seconds: float) -> None:
    row = {partition: number for number, partition in enumerate(timeline.partitions)}
    colour = {
        member: COLOURS[number % len(COLOURS)]
        for number, member in enumerate(sorted(timeline.members))
    }
    for interval in timeline.intervals:
        start = _seconds(timeline, interval.start_ns)
        axes.barh(
            row[interval.partition],
            _seconds(timeline, interval.end_ns) - start,
            left=start,
            height=0.86,
            color=colour[interval.member],
            linewidth=0,
        )
    for block in blocks(timeline):
        start, end = _seconds(timeline, block[0].start_ns), _seconds(timeline, block[0].end_ns)
        if end - start > seconds * NAME_SHARE_MIN:
            middle = sum(row[interval.partition] for interval in block) / len(block)
            axes.text(
                start + seconds * NAME_PAD_SHARE,
                middle,
                block[0].member,
                ha="left",
                va="center",
                fontsize=8,
                color="black",
            )
    axes.set_ylim(len(row) - 0.4, -0.6)
    axes.set_xlim(0, seconds)
    axes.set_yticks(
        range(0, len(row), 2 if len(row) > 12 else 1),
        [str(partition.number) for partition in timeline.partitions][:: 2 if len(row) > 12 else 1],
        fontsize=8,
    )
    axes.set_ylabel("partition")
    _plain(axes)


def blocks(timeline: Timeline) -> list[list[Interval]]:
    """Intervals of one member in neighbouring rows that are the same to about a second: each block
    carries the name once.
    """
    found: list[list[Interval]] = []
    rows = {partition: number for number, partition in enumerate(timeline.partitions)}
    for interval in sorted(
        timeline.intervals, key=lambda i: (i.start_ns // 1_000_000_000, i.member, rows[i.partition])
    ):
        last = found[-1][-1] if found else None
        if (
            last is not None
            and last.member == interval.member
            and rows[interval.partition] == rows[last.partition] + 1
            and abs(interval.start_ns - last.start_ns) + abs(interval.end_ns - last.end_ns)
            < 2_000_000_000
        ):
            found[-1].append(interval)
        else:
            found.append([interval])
    return found


def _marks(both: tuple[Any, Any], timeline: Timeline, seconds: float) -> None:
    """Labels above the rows, in turn on `LABEL_ROWS` levels where they would touch."""
    top = both[0]
    right = [-1e9] * LABEL_ROWS
    for mark in timeline.marks:
        at = _seconds(timeline, mark.t_ns)
        level = next(
            (number for number in range(LABEL_ROWS) if at > right[number]),
            min(range(LABEL_ROWS), key=lambda number: right[number]),
        )
        for axes in both:
            axes.axvline(at, **LINE)
        text = mark.label + ("" if mark.took_ms is None else f"\n{mark.took_ms:.0f} ms")
        right[level] = at + seconds * CHARACTER_SHARE * (max(map(len, text.splitlines())) + 2)
        foot = 1.0 + LABEL_STEP * level
        top.plot(
            [at, at],
            [1.0, foot + LABEL_STEP * 0.9],
            transform=top.get_xaxis_transform(),
            clip_on=False,
            **LINE,
        )
        top.annotate(
            text,
            (at, foot),
            xycoords=("data", "axes fraction"),
            xytext=(3, 3),
            textcoords="offset points",
            fontsize=9,
            va="bottom",
            ha="left",
            linespacing=1.05,
            annotation_clip=False,
        )


def _rate(axes: Any, timeline: Timeline, seconds: float) -> None:
    bins = range(max(timeline.delivered, default=0) + 1)
    width = BIN_NS / 1e9
    axes.fill_between(
        [number * width for number in bins],
        [timeline.delivered[number] / width for number in bins],
        step="post",
        color="#9db8c9",
        linewidth=0,
    )
    axes.set_ylim(bottom=0)
    axes.set_ylabel("records/s")
    axes.set_xlabel("seconds")
    axes.tick_params(labelsize=8)
    _plain(axes)


def _plain(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
