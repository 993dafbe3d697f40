"""`zkcoord journal`: what happened to a group, and why, as a table that a person understands. Reads
files only; ZooKeeper need not be there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zkcoord.cli.journal_traces import Traces
from zkcoord.config.option_spec import Use
from zkcoord.config.settings import journal_dir
from zkcoord.config.sources import add_flags, resolve
from zkcoord.coordinator.journal import Reading, Record, journal_files
from zkcoord.coordinator.logging import timestamp
from zkcoord.errors import ConfigurationError, NoJournalError, RefusedError
from zkcoord.terminal import err, out, printable
from zkcoord.text_table import table
from zkcoord.words import counted
from zkcoord.znodes.names import validate_group

SHOWN = 100
FOLLOW_POLL_MS = 250
WAITED_SHOWN_MAX = 2
NAME_CHARS_MAX = 60
COLUMNS = (
    ("TIME", 24),
    ("GROUP", 12),
    ("WHAT", 26),
    ("WHY", 18),
    ("TRIGGER", 12),
    ("TOOK", 9),
    ("MOVED", 5),
    ("MEMBERS", 7),
    ("WAITED FOR", 0),
)

EPILOG = """\
examples:
  zkcoord journal                           the last 100 records of all groups
  zkcoord journal --group billing -n 20     what happened to one group
  zkcoord journal --group billing --follow  and what happens next
  zkcoord journal --json -n 0               every record, one JSON object per line
  # each rebalance from now on as a trace
  zkcoord journal --follow -n 1 --traces-to http://collector:4318/v1/traces

WHY is what began a rebalance and TRIGGER the member or topic that did; WAITED FOR names the members
whose answers took longest. All times are UTC.
"""


def add_parser(subparsers: Any) -> None:
    """Add `journal`."""
    parser = subparsers.add_parser(
        "journal",
        help="what happened to a group, and why",
        description=(
            "What the coordinators of this machine did: terms, rebalances, evictions, malformed"
            " nodes."
        ),
        epilog=EPILOG,
    )
    parser.add_argument(
        "--dir",
        dest="journal_dir",
        default=argparse.SUPPRESS,
        metavar="DIR",
        help="the same as --journal-dir",
    )
    parser.add_argument(
        "--group", metavar="GROUP", help="only this group, and the coordinator's terms"
    )
    parser.add_argument("--follow", action="store_true", help="go on with what comes, until Ctrl-C")
    parser.add_argument(
        "--traces-to",
        metavar="URL",
        help="send the rebalances that are shown as OpenTelemetry traces (OTLP over HTTP), too",
    )
    parser.add_argument("--json", action="store_true", help="records as they are, one per line")
    parser.add_argument(
        "-n",
        type=int,
        default=SHOWN,
        metavar="N",
        help=f"the last N records; 0: all (default: {SHOWN})",
    )
    add_flags(parser, Use.JOURNAL)


def run(args: argparse.Namespace) -> int:
    """0; without a journal, `NoJournalError`."""
    folder = journal_dir(resolve(Use.JOURNAL, vars(args), os.environ), os.environ)
    if args.group is not None:
        validate_group(args.group)
    if args.n < 0:
        raise ConfigurationError(f"-n is {args.n}: write 0 for all records, or how many")
    if not args.follow and not journal_files(folder):
        raise NoJournalError(
            f"there is no journal in {folder}: name the coordinator's --journal-dir with --dir"
        )
    traces = Traces(args.traces_to) if args.traces_to is not None else None
    try:
        return _show(args, folder, _Rows(args.json, traces))
    finally:
        if traces is not None:
            traces.close()


def _show(args: argparse.Namespace, folder: Path, rows: _Rows) -> int:
    reading = Reading()
    found, of_group = _last(reading, folder, args)
    rows.show(found)
    if reading.unreadable:
        err(
            f"zkcoord journal: {counted(reading.unreadable, 'line', 'was')} left out of {folder},"
            " since no record is there\n"
        )
    if args.group is not None and not args.follow and not of_group:
        raise RefusedError(
            f"there is no record of the group {args.group} in {folder}: correct --group, or name"
            " another coordinator's --journal-dir with --dir"
        )
    if args.follow:
        _follow(reading, folder, args, rows)
    return 0


def _last(reading: Reading, folder: Path, args: argparse.Namespace) -> tuple[list[Record], bool]:
    """The records asked for, and whether any is of a group; at most N of them are in memory at a
    time.
    """
    last: deque[Record] = deque(maxlen=args.n or None)
    of_group = False
    for record in reading.records(folder):
        if _wanted(record, args):
            last.append(record)
            of_group = of_group or bool(record.get("group"))
    return list(last), of_group


def _follow(reading: Reading, folder: Path, args: argparse.Namespace, rows: _Rows) -> None:
    try:
        while True:
            time.sleep(FOLLOW_POLL_MS / 1000)
            rows.show([record for record in reading.records(folder) if _wanted(record, args)])
    except KeyboardInterrupt:
        return


def _wanted(record: Record, args: argparse.Namespace) -> bool:
    return args.group is None or record.get("group", args.group) == args.group


class _Rows:
    """Prints records; the table's head once."""

    def __init__(self, as_json: bool, traces: Traces | None) -> None:
        self.as_json = as_json
        self.traces = traces
        self.begun = False

    def show(self, records: list[Record]) -> None:
        """Print these."""
        if self.as_json:
            text = "".join(json.dumps(record) + "\n" for record in records)
        else:
            text = (
                table(COLUMNS, [row(record) for record in records])
                if records or not self.begun
                else ""
            )
            if self.begun:
                text = text.partition("\n")[2]
            self.begun = True
        out(text)
        if self.traces is not None:
            self.traces.send(records)


def row(record: Mapping[str, Any]) -> list[str]:
    """A record's cells. Whatever is in the record, this gives a row: it may be of another
    version.
    """
    kind = str(record["kind"])
    what, why, trigger = _story(kind, record)
    took = f"{record['duration_ms']} ms" if isinstance(record.get("duration_ms"), int) else ""
    cells = [
        timestamp(record["t"]),
        _text(record, "group"),
        what,
        why,
        trigger,
        took,
        _text(record, "moved"),
        _text(record, "members"),
        _waited(record.get("waited_for")),
    ]
    return [_cut(printable(cell)) or "-" for cell in cells]


def _story(kind: str, record: Mapping[str, Any]) -> tuple[str, str, str]:
    """What happened, why, and who began it."""
    if kind in STORIES:
        return STORIES[kind](record)
    if kind == "rebalance":
        left = record.get("unassigned") or 0
        return (
            f"rebalance {_text(record, 'generation')}" + (f", {left} unassigned" if left else ""),
            _text(record, "cause"),
            _text(record, "trigger"),
        )
    if kind == "client-led rebalance":
        out = record.get("out")
        return (
            f"client-led rebalance {_text(record, 'generation')}"
            + (f", {len(out)} out" if isinstance(out, list) and out else ""),
            _text(record, "cause"),
            _text(record, "trigger"),
        )
    if kind == "client-led group":
        after = _text(record, "after")
        return f"client-led: {after}" if after else kind, _text(record, "reason"), ""
    if kind == "term":
        older = (
            f"an earlier lease of {_text(record, 'older_lease_ms')} ms is waited for"
            if "older_lease_ms" in record
            else ""
        )
        return (
            f"{_text(record, 'event')} (epoch {_text(record, 'epoch')})",
            _text(record, "reason") or older,
            "",
        )
    if kind == "evicted":
        return "member evicted", _text(record, "reason"), _text(record, "member")
    if kind == "quarantined":
        return (
            f"quarantined for {_text(record, 'backoff_ms')} ms at least",
            _text(record, "reason"),
            "",
        )
    if kind == "assignor":
        return f"assignor {_text(record, 'assignor')} failed", _text(record, "reason"), ""
    if kind == "released":
        return "quarantine over", _text(record, "because"), ""
    if kind == "mode":
        return (
            f"mode {_text(record, 'mode') or 'none'}",
            _text(record, "strategy"),
            _text(record, "by"),
        )
    if kind == "legacy":
        return f"old consumers: {_text(record, 'event')}", _text(record, "problem"), ""
    if kind == "static":
        return (
            f"static member {_text(record, 'event')}",
            f"instance {_text(record, 'instance')}",
            _text(record, "member"),
        )
    if kind == "malformed":
        return f"malformed {_text(record, 'what')}", _text(record, "reason"), _text(record, "name")
    if kind == "broker":
        return f"broker {_text(record, 'broker_id')} {_text(record, 'event')}", "", ""
    if kind == "lost":
        return f"{_text(record, 'records')} records lost", "the journal could not be written", ""
    return (
        kind,
        _text(record, "reason") or _text(record, "cause"),
        _text(record, "member") or _text(record, "trigger") or _text(record, "by"),
    )


def _trouble(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return (
        f"trouble {_text(record, 'event')}: {_text(record, 'trouble')}",
        _text(record, "evidence"),
        _text(record, "member"),
    )


def _members(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Who came, who went, and how memberships before had ended."""
    joined, left = record.get("joined"), record.get("left")
    came = [one for one in joined if isinstance(one, dict)] if isinstance(joined, list) else []
    went = left if isinstance(left, list) else []
    named = [*(f"+{_text(one, 'member')}" for one in came), *(f"-{name}" for name in went)]
    ends = [text for one in came if (text := _text(one, "ended"))]
    more = len(named) - WAITED_SHOWN_MAX
    return (
        f"{len(came)} came, {len(went)} went",
        ", ".join(f"{text} ms before" for text in ends[:WAITED_SHOWN_MAX]),
        ", ".join(named[:WAITED_SHOWN_MAX]) + (f", {more} more" if more > 0 else ""),
    )


def _topics(record: Mapping[str, Any]) -> tuple[str, str, str]:
    of, expected = _text(record, "cluster"), _text(record, "expected")
    why = (f"cluster {of}" if of else "") + (f", and not {expected}" if expected else "")
    return f"topics: {_text(record, 'event')}", why, ""


STORIES = {"members": _members, "trouble": _trouble, "topics": _topics}


def _waited(found: Any) -> str:
    """`member 21 ms, member 4 ms`, the longest first."""
    if not isinstance(found, list):
        return ""
    items = [item for item in found if isinstance(item, dict) and isinstance(item.get("ms"), int)]
    text = ", ".join(
        f"{_cut(str(item.get('member', '')))} {item['ms']} ms" for item in items[:WAITED_SHOWN_MAX]
    )
    return text + (
        f", {len(items) - WAITED_SHOWN_MAX} more" if len(items) > WAITED_SHOWN_MAX else ""
    )


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return "" if value is None else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= NAME_CHARS_MAX * 3 else text[: NAME_CHARS_MAX * 3] + "..."
