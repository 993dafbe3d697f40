"""`zkcoord offsets delete`: stored offsets of topics or partitions go. Nothing is deleted without
--execute.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

from zkcoord.admin.common import Progress, argument, some
from zkcoord.admin.offsets.delete import DeletedOffset, OffsetsDeletion
from zkcoord.admin.offsets.reset_plan import parse_topics
from zkcoord.cli.dry_run import refuse_both
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings
from zkcoord.errors import ConfigurationError, RefusedError
from zkcoord.terminal import out
from zkcoord.text_table import table
from zkcoord.words import counted
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import layout_named

COLUMNS = (("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10), ("DELETED-OFFSET", 0))

EPILOG = """\
examples:
  # what would go
  zkcoord offsets delete billing --zookeeper zk1:2181/kafka --topic orders
  zkcoord offsets delete billing --zookeeper zk1:2181/kafka --topic orders:0,2 --execute

What a member subscribes to, or owns, is refused. What is named and has no offset is said, with exit
status 1, and the others are deleted. The topic need not exist any more. Offsets that
consumers mirror to Kafka stay there.
"""


def run(args: argparse.Namespace, settings: Settings, group: str) -> int:
    """0; what cannot be done is raised (`ZkcoordError`)."""
    chosen = parse_topics(args.topic or ())
    refuse_both(args)
    if not chosen or args.all_topics:
        raise ConfigurationError(
            "which offsets? write --topic TOPIC, or TOPIC:0,1,2 for some partitions; those of all"
            " topics go with zkcoord groups delete"
        )
    progress = Progress("zkcoord offsets")
    with SyncClient(zk_options(settings)) as client:
        layout = layout_named(settings.text("layout"))
        deletion = OffsetsDeletion(client, layout, group, chosen, progress)
        planned = deletion.plan()
        missing = _missing(chosen, planned)
        named = [topic if number is None else f"{topic}:{number}" for topic, number in missing]
        vain = (
            f"the group {group} has no offsets of {some(named)}: correct --topic, or see zkcoord"
            f" offsets show {argument(group)}"
        )
        if not planned:
            raise RefusedError(vain)
        if not args.execute:
            _print(args, group, planned, missing)
            if missing:
                raise RefusedError(f"{vain} (nothing was deleted)")
            if not args.json:
                progress.note("nothing was deleted; add --execute")
            return 0
        try:
            refusal = deletion.execute()
        except KeyboardInterrupt:
            progress.note(f"interrupted: {len(deletion.done)} of {len(planned)} are deleted")
            raise
    said = f"{counted(len(deletion.done), 'offset', 'was')} deleted"
    _print(args, group, deletion.done, missing, refusal, said)
    if refusal and missing:
        progress.note(vain)
    if refusal or missing:
        raise RefusedError(f"{refusal or vain} ({said})")
    if not args.json:
        progress.note(said)
    return 0


def _missing(
    chosen: Mapping[str, tuple[int, ...] | None], planned: Sequence[DeletedOffset]
) -> list[tuple[str, int | None]]:
    """What was named and has no stored offset: partitions, or a topic (None) as a whole."""
    there = {(one.tp.topic, one.tp.partition) for one in planned}
    topics = {topic for topic, _ in there}
    return [
        (topic, number)
        for topic, numbers in chosen.items()
        for number in ((None,) if numbers is None else numbers)
        if (topic not in topics if number is None else (topic, number) not in there)
    ]


def _print(
    args: argparse.Namespace,
    group: str,
    rows: Sequence[DeletedOffset],
    missing: Sequence[tuple[str, int | None]],
    refusal: str = "",
    done: str = "",
) -> None:
    if args.json:
        document = {
            "group": group,
            "executed": bool(args.execute),
            "refusal": refusal or None,
            "partitions": [
                {"topic": r.tp.topic, "partition": r.tp.partition, "deleted_offset": r.offset}
                for r in rows
            ],
            "missing": [{"topic": topic, "partition": number} for topic, number in missing],
        }
        text = json.dumps(document, indent=1) + "\n"
    else:
        text = table(
            COLUMNS,
            [
                [group, r.tp.topic, str(r.tp.partition), "-" if r.offset is None else str(r.offset)]
                for r in rows
            ],
        )
    out(text, done=done)
