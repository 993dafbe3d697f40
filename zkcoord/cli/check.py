"""`zkcoord check`: what is wrong on an ensemble with old consumers, named with the group, the node,
what it does to which version, and the fix. It writes nothing, anywhere.

Exit status: 0 nothing that bad, 3 something as bad as --fail-on says or worse, and 1, 2 and 130 as
every command: 1 also where a node may not be read, after all that could be read is reported.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from zkcoord.admin.common import Progress, some
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.admin.offsets.log_offsets import LogOffsets
from zkcoord.check.examination import Examination, ExaminationCounts
from zkcoord.check.group_rules import GroupJudgement
from zkcoord.check.rules import CheckFinding
from zkcoord.check.severity import Severity
from zkcoord.cli.brokers import brokers
from zkcoord.config.option_spec import Use
from zkcoord.config.options import ACL_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings, add_flags, resolve
from zkcoord.errors import ConfigurationError, RefusedError
from zkcoord.terminal import out, printable
from zkcoord.words import counted
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.port import ZkError
from zkcoord.zk.sync.client import SyncClient, give_others
from zkcoord.znodes.paths import Layout

FOUND = 3
WATCH_S_MAX = 86_400
NEVER = "never"

EPILOG = """\
examples:
  # every group, every problem
  zkcoord check --zookeeper zk1:2181/kafka
  # watch them for 30 s: offsets that go back, members that own nothing
  zkcoord check --zookeeper zk1:2181/kafka --only 'billing*' --for 30
  # ask the brokers as well: offsets outside of the logs, groups that are live in Kafka
  zkcoord check --zookeeper zk1:2181/kafka --kafka
  # for CI: exit status 3 where something is that bad or worse
  zkcoord check --zookeeper zk1:2181/kafka --json --fail-on warning
"""


def add_parser(subparsers: Any) -> None:
    """Add `check`."""
    about = (
        "Look for everything that is known to stop, lose or repeat records of old consumers. Writes"
        " nothing."
    )
    parser = subparsers.add_parser(
        "check",
        help="what is wrong below /consumers and /brokers",
        description=about,
        epilog=EPILOG,
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="GROUP",
        help="only groups of this name, or pattern with * and ?, and what concerns these; may be"
        " repeated",
    )
    parser.add_argument(
        "--for",
        dest="watch_s",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="watch groups with old consumers for so long, for what one look cannot tell",
    )
    parser.add_argument(
        "--kafka", action="store_true", help="ask the brokers about logs and live groups as well"
    )
    levels = [*(severity.value for severity in Severity), NEVER]
    parser.add_argument(
        "--fail-on",
        choices=levels,
        default=Severity.ERROR.value,
        help="exit with status 3 where something is that bad or worse (default: error)",
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of text")
    add_flags(parser, Use.GROUPS, (*ACL_OPTIONS, "layout"))


def run(args: argparse.Namespace) -> int:
    """0 or 3; what cannot be done is raised (`ZkcoordError`)."""
    settings = resolve(Use.GROUPS, vars(args), os.environ)
    if not 0 <= args.watch_s <= WATCH_S_MAX:
        raise ConfigurationError(
            f"--for is {args.watch_s:g}: write seconds from 0 to {WATCH_S_MAX}"
        )
    patterns = args.only or ["*"]
    matched: set[str] = set()
    progress = Progress("zkcoord check")
    with SyncClient(zk_options(settings)) as reader:
        asking = _Kafka(settings, reader, progress) if args.kafka else None
        try:
            wanted = partial(_matches, patterns, matched)
            examination = Examination(
                reader,
                wanted,
                None if asking is None else asking.ask,
                args.watch_s,
                lambda: boot_ms() / 1000,
                threading.Event().wait,
                is_whole=not args.only,
            )
            (_write_json if args.json else _write_text)(examination)
            if args.watch_s and not examination.watches:
                progress.note("no group has old consumers, so --for had nothing to watch")
        finally:
            if asking is not None:
                asking.close()
    vain = [pattern for pattern in args.only or () if pattern not in matched]
    refusals = list(_hidden(examination))
    if vain and examination.listed:
        refusals.append(
            f"no group matches {some(vain)}: correct --only, or the chroot at the end of"
            " --zookeeper"
        )
    for sentence in refusals[1:]:
        progress.note(sentence)
    if refusals:
        raise RefusedError(refusals[0])
    return FOUND if _bad(examination.seen, args.fail_on) else 0


def _hidden(examination: Examination) -> Iterator[str]:
    """A sentence where something could not be read, for then the report is not whole: what may not
    be, and what is too large to be.
    """
    absent = "so what is there is not in this report"
    for code, first in examination.hidden_first.items():
        count = examination.seen.hidden[code]
        named = ", ".join(first) + (f" and {count - len(first)} more" if count > len(first) else "")
        if code == "answer-too-large":
            yield (
                f"what {named} holds, or the names below it, are larger than any answer that is"
                f" taken ({ZkError.TOO_LARGE.value}), {absent}: delete what is nobody's there"
            )
        else:
            yield (
                f"ZooKeeper does not let this client read {named} ({ZkError.NO_AUTH.value}),"
                f" {absent}: {give_others(examination.reader.given)}"
            )


def _matches(patterns: Sequence[str], matched: set[str], name: str) -> bool:
    """Notes in `matched` which patterns are of use."""
    found = {pattern for pattern in patterns if fnmatch.fnmatchcase(name, pattern)}
    matched |= found
    return bool(found)


def _bad(seen: ExaminationCounts, fail_on: str) -> bool:
    return fail_on != NEVER and any(
        count and severity.rank <= Severity(fail_on).rank
        for severity, count in seen.findings.items()
    )


class _Kafka:
    """What only brokers know of groups."""

    def __init__(self, settings: Settings, reader: SyncClient, progress: Progress) -> None:
        self.progress = progress
        asked = brokers(settings, reader, Layout.ISOLATED)
        self.ends = LogOffsets(asked.servers, asked.security)
        self.groups = KafkaGroups(asked.servers, security=asked.security)
        self._said = False
        self.groups.names()  # before anything is written: whether a broker answers at all

    def close(self) -> None:
        """Close the connections."""
        self.ends.__exit__(None, None, None)
        self.groups.close()

    def ask(self, batch: Sequence[tuple[str, GroupJudgement]]) -> Iterator[CheckFinding]:
        """Offsets outside of the logs, or only in Kafka, and live members of Kafka's own
        protocol.
        """
        wanted = {tp for _, judgement in batch for tp in judgement.stored}
        starts, ends = self.ends.starts_of(wanted), self.ends.of(wanted)
        if self.ends.warning and not self._said:
            self._said = True
            self.progress.note(self.ends.warning)
        for name, judgement in batch:
            for tp, offset in sorted(judgement.stored.items()):
                if tp in starts and tp in ends and not starts[tp] <= offset <= ends[tp]:
                    yield CheckFinding(
                        "offset-outside-log",
                        name,
                        Layout.ISOLATED.offset(name, tp),
                        f"{offset}, and the log holds {starts[tp]} to {ends[tp]}",
                    )
        elsewhere = [
            name for name, judgement in batch if judgement.offsets_known and not judgement.stored
        ]
        for name, offsets in self.groups.committed(elsewhere).items():
            if offsets:
                yield CheckFinding(
                    "offsets-only-in-kafka",
                    name,
                    Layout.ISOLATED.offsets(name),
                    f"none are stored here, and {counted(len(offsets), 'partition', 'has')} one in"
                    f" Kafka ({some(sorted(offsets))})",
                )
        living = [name for name, judgement in batch if judgement.old or judgement.ours]
        for name, members in self.groups.live_members(living).items():
            if members:
                yield CheckFinding(
                    "live-in-kafka",
                    name,
                    Layout.ISOLATED.ids(name),
                    f"{', '.join(members[:5])}{' ...' if len(members) > 5 else ''}",
                )


def _write_text(examination: Examination) -> None:
    for finding in examination.findings():
        rule = finding.rule
        hurts = f" ({rule.versions})" if rule.versions else ""
        whose = f"  group {printable(finding.group)}" if finding.group else ""
        out(
            f"{rule.severity.value.upper()} {finding.code}{whose}\n  {printable(finding.node)}:"
            f" {printable(finding.what)}\n  effect{hurts}: {rule.effect}\n  fix: {rule.fix}\n\n"
        )
    out(_summary(examination.seen) + "\n")


def _summary(seen: ExaminationCounts) -> str:
    counts = ", ".join(counted(seen.findings[severity], severity.value) for severity in Severity)
    return (
        f"{counted(seen.groups, 'group')}, {counted(seen.old_members, 'old consumer')},"
        f" {seen.our_members} of zkcoord's, {counted(seen.topics, 'topic')},"
        f" {counted(seen.offsets, 'offset')}: {counts}."
    )


def _write_json(examination: Examination) -> None:
    """One document, written as it is found."""
    out('{"findings": [')
    between = "\n"
    for finding in examination.findings():
        out(between + json.dumps(finding.to_json()))
        between = ",\n"
    seen = examination.seen
    found = {severity.value: seen.findings[severity] for severity in Severity}
    figures = {
        "groups": seen.groups,
        "old_members": seen.old_members,
        "our_members": seen.our_members,
        "topics": seen.topics,
        "offsets": seen.offsets,
        "found": found,
        "hidden": seen.hidden.total(),
    }
    out(f'\n], "seen": {json.dumps(figures)}}}\n')
