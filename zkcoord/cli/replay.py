"""`zkcoord replay`: a recorded term of a coordinator again, decision by decision, and whether this
zkcoord decides the same. Reads files only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zkcoord import __version__
from zkcoord.admin.common import some
from zkcoord.admin.offsets.time_spec import parse_datetime
from zkcoord.config.files import refuse_pipe
from zkcoord.config.option_spec import Use
from zkcoord.config.settings import journal_dir
from zkcoord.config.sources import resolve
from zkcoord.coordinator.logging import timestamp
from zkcoord.core.events import Action
from zkcoord.core_encoding import ForeignEncoding, codec
from zkcoord.errors import ConfigurationError, ReplayError, UnknownGroupError
from zkcoord.replay import what_if as replay_whatif
from zkcoord.replay.replay import Difference, Recording, Replay, ReplayResult, recordings
from zkcoord.replay.story import Decision, Story
from zkcoord.replay.text import action_text
from zkcoord.replay.transcript import script
from zkcoord.terminal import out, printable
from zkcoord.words import counted
from zkcoord.znodes.names import validate_group

EPILOG = """\
examples:
  # every decision of the term with epoch 7, and its why
  zkcoord replay inputs-7.jsonl
  # all terms in the journal's folder: the verdict only
  zkcoord replay -q
  # one group's decisions
  zkcoord replay inputs-7.jsonl --group billing
  zkcoord replay --group billing --from 2026-01-31T10:14:00Z --until 2026-01-31T10:15:00Z
  zkcoord replay inputs-7.jsonl --group billing --to-script tests/core/scripts/incident.txt
  zkcoord replay inputs-7.jsonl --with assignor=sticky --with debounce_ms=0

"""
EPILOG += (
    replay_whatif.ASSUMES
    + """\

A coordinator records its inputs with --journal-inputs. Each decision is shown with what the group
was told since its last write. Exit status: 0 identical, 1 the first difference in both versions.
"""
)


def add_parser(subparsers: Any) -> None:
    """Add `replay`."""
    parser = subparsers.add_parser(
        "replay",
        help="what a coordinator decided and why, again and offline",
        description="Run the recorded inputs of a coordinator through the same code and compare.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "path",
        type=Path,
        nargs="?",
        metavar="FILE|FOLDER",
        help=(
            "a recording, inputs-<epoch>.jsonl, or a folder with several; without it, the journal's"
            " folder, as for zkcoord journal"
        ),
    )
    parser.add_argument(
        "--group", metavar="GROUP", help="show only this group's decisions (all are compared)"
    )
    parser.add_argument(
        "--from",
        dest="since",
        metavar="TIME",
        help="show only decisions from then on: YYYY-MM-DDThh:mm:ss.sss, UTC unless it ends with a"
        " zone (all are compared)",
    )
    parser.add_argument("--until", metavar="TIME", help="show only decisions up to then")
    parser.add_argument(
        "--with",
        dest="what_if",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=(
            "what if: any option of the decisions, or assignor=NAME for all members; may be"
            " repeated"
        ),
    )
    parser.add_argument(
        "--to-script",
        type=Path,
        metavar="OUT",
        help=(
            "write the term (with --group: what concerns that group) as a transcript for"
            " tests/core/scripts"
        ),
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="the last line only")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object per decision, and one for the verdict"
    )


def run(args: argparse.Namespace) -> int:
    """0: identical. 1: not."""
    if args.group is not None:
        validate_group(args.group)
    if args.path is not None:
        try:
            refuse_pipe(str(args.path))
        except OSError as error:
            raise ReplayError(
                f"{args.path} cannot be read ({error.strerror}): name a file of inputs, or a"
                " journal's folder"
            ) from error
    shown = _shown(args)
    if (args.since or args.until) and (args.what_if or args.to_script is not None):
        raise ConfigurationError(
            "--from and --until say which decisions are shown, and --with and --to-script are of"
            " the whole term: leave one of them out"
        )
    path = args.path or journal_dir(resolve(Use.JOURNAL, {}, os.environ), os.environ)
    found = recordings(path)
    if args.group is not None:
        _check_known(found, args.group, path)
    if args.what_if:
        return _what_if(found, args)
    if args.to_script is not None:
        return _to_script(found, args)
    verdicts = []
    for recording in found:
        verdicts.append(_replay(recording, args, shown))
        if verdicts[-1].difference is not None:
            break
    return _conclude(verdicts, args)


def _check_known(found: list[Recording], group: str, path: Path) -> None:
    """Raises `UnknownGroupError` where nothing that was recorded is about the group."""
    others = set[str]()
    for recording in found:
        for step in recording.steps():
            of = getattr(step.event, "group", None)
            if of == group:
                return
            if of is not None:
                others.add(of)
    told = sorted(others)
    raise UnknownGroupError(
        f"{path} has nothing about the group {group}: "
        + (f"it tells of {some(told)}" if told else "it tells of no group")
    )


def _what_if(found: list[Recording], args: argparse.Namespace) -> int:
    if args.to_script is not None:
        raise ConfigurationError(
            "--with tells what did not happen and --to-script writes what did: leave one of"
            " them out"
        )
    for recording in found:
        what_if = replay_whatif.parse(recording.options, args.what_if)
        compared = replay_whatif.compare(recording, what_if)
        if args.json:
            out(
                json.dumps(
                    {
                        "epoch": recording.epoch,
                        "with": args.what_if,
                        "unanswered": compared.unanswered,
                        "groups": replay_whatif.values(compared, args.group),
                    }
                )
                + "\n"
            )
        else:
            out(
                f"{printable(recording.name)}: the term of epoch {recording.epoch}, from"
                f" {timestamp(recording.wall_ms)} on, what if {printable(what_if.text)}\n"
            )
            out(replay_whatif.text(compared, args.group))
    if not args.json and not args.quiet:
        out(replay_whatif.ASSUMES)
    return 0


def _to_script(found: list[Recording], args: argparse.Namespace) -> int:
    if len(found) != 1:
        raise ConfigurationError(
            f"there are {len(found)} recordings and a transcript is of one: name the file"
        )
    text = script(found[0], args.group)
    try:
        args.to_script.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigurationError(
            f"{args.to_script} cannot be written ({error.strerror}): name another file with"
            " --to-script"
        ) from error
    inputs = counted(text.count(f"{chr(10)}----"), "input")
    said = f"{args.to_script}: {inputs}; as a file of tests/core/scripts it is a test of the core"
    out(f"{said}\n", done=said)
    return 0


def _shown(args: argparse.Namespace) -> Callable[[int, Decision], bool]:
    """Whether a decision of a term that began then (ms since 1970) is to be shown. Raises
    `ConfigurationError`.
    """
    since = parse_datetime(args.since, "--from")[0] if args.since else 0
    until = parse_datetime(args.until, "--until")[0] if args.until else sys.maxsize
    if since > until:
        raise ConfigurationError(
            f"--from {printable(args.since)} is later than --until {printable(args.until)}: nothing"
            " lies between them, exchange the two"
        )

    def is_shown(began_ms: int, decision: Decision) -> bool:
        is_its = args.group in (None, decision.group)
        return is_its and not args.quiet and since <= began_ms + decision.ms <= until

    return is_shown


def _replay(
    recording: Recording, args: argparse.Namespace, is_shown: Callable[[int, Decision], bool]
) -> ReplayResult:
    replay = Replay(recording)
    story = Story(replay.core)
    if not args.quiet and not args.json:
        out(
            f"{printable(recording.name)}: what a coordinator was told in its term of epoch"
            f" {recording.epoch}, from {timestamp(recording.wall_ms)} on, is told to zkcoord"
            f" {__version__} again; {printable(_which(args))}, in ms since the first input\n"
        )
    is_any = False
    with recording.believed():
        for step, actions in replay.steps(story.told):
            for decision in story.decided(step.event, actions, step.line):
                if is_shown(recording.wall_ms, decision):
                    is_any = True
                    out(_decision(decision, recording, args.json))
        verdict = replay.verdict
        if verdict.difference is not None:
            out(_difference(verdict.difference, recording, args.json))
    if verdict.difference is not None:
        return verdict
    if not args.quiet and not args.json:
        if not is_any and (args.since or args.until):
            out(f"{'none':>11}  of its decisions is among {printable(_which(args))}\n")
        out(f"{verdict.now_ms - verdict.began_ms:>8} ms  {printable(verdict.end)}\n")
    return verdict


def _which(args: argparse.Namespace) -> str:
    """The decisions that are shown, in words."""
    narrow = [f"{word} {at}" for word, at in (("from", args.since), ("until", args.until)) if at]
    if args.group is not None:
        return " ".join(["the decisions for", args.group, *narrow])
    return " ".join(["the decisions", *narrow]) if narrow else "all decisions"


def _decision(decision: Decision, recording: Recording, as_json: bool) -> str:
    if not as_json:
        return decision.text()
    because = [{"ms_before": ago, "what": why} for ago, why in decision.because]
    return (
        json.dumps(
            {
                "epoch": recording.epoch,
                "ms": decision.ms,
                "group": decision.group,
                "decided": decision.what,
                "because": because,
                "line": decision.line,
            }
        )
        + "\n"
    )


def _difference(found: Difference, recording: Recording, as_json: bool) -> str:
    """Both versions of the first action that differs."""
    if as_json:
        return (
            json.dumps(
                {
                    "epoch": recording.epoch,
                    "line": found.step.line,
                    "recorded": found.recorded,
                    "now": found.said,
                }
            )
            + "\n"
        )
    said = "\n".join(
        f"  {when:<10}{_words(plain)}"
        for when, plain in (("recorded:", found.recorded), ("now:", found.said))
    )
    return (
        f"line {found.step.line} of {recording.name}: the same input gives something else\n{said}\n"
    )


def _words(plain: Any) -> str:
    """In words and, because words leave things out, as recorded."""
    if plain is None:
        return "nothing"
    try:
        return (
            f"{printable(action_text(codec(Action).decode(plain)))}\n  {'':<10}{json.dumps(plain)}"
        )
    except ForeignEncoding:  # another version said something that this one has no words for
        return json.dumps(plain)


def _conclude(verdicts: list[ReplayResult], args: argparse.Namespace) -> int:
    inputs, writes = sum(v.inputs for v in verdicts), sum(v.writes for v in verdicts)
    same = verdicts[-1].difference is None
    if args.json:
        out(
            json.dumps(
                {"terms": len(verdicts), "inputs": inputs, "writes": writes, "identical": same}
            )
            + "\n"
        )
    else:
        terms = f" in {len(verdicts)} terms" if len(verdicts) > 1 else ""
        verdict = "identical" if same else "different"
        out(f"{counted(inputs, 'input')}, {counted(writes, 'write')}{terms}: {verdict}\n")
    return 0 if same else 1
