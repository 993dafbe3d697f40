"""Make visible what departed applications of a group have committed, and clean away what they have
only staged: for readers that do not want to wait until an application runs again.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from consumer.spark.sink import publication
from consumer.spark.sink.effects import Keeper
from consumer.spark.sink.files import Files, files_at, local_files, scheme_of
from consumer.spark.sink.recovery import committed, recover
from zkcoord.cli.main import BAD_USE, CANNOT, INTERRUPTED, OK, CliParser
from zkcoord.config.option_spec import Use
from zkcoord.config.options import ACL_OPTIONS, BROKER_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import add_flags, resolve
from zkcoord.errors import ConfigurationError, ZkcoordError
from zkcoord.terminal import err, out, printable
from zkcoord.znodes.names import validate_group
from zkcoord.znodes.paths import layout_named

PROG = "python -m zkcoord.consumer.spark.sink"
EPILOG = """\
exit status: 0 done, 1 it could not be done or something was left alone (each is named), 2 the
command line is wrong.

examples:
  python -m zkcoord.consumer.spark.sink --zookeeper zk1:2181/kafka --group billing \\
      --directory /data/orders
  # Hadoop as Spark finds it: HADOOP_CONF_DIR
  python -m zkcoord.consumer.spark.sink --config zkcoord.toml --group billing \\
    --directory hdfs:///warehouse/orders
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = CliParser(prog=PROG, description=__doc__, epilog=EPILOG)
    parser.add_argument("--group", required=True, help="the group whose applications write there")
    parser.add_argument(
        "--directory",
        required=True,
        metavar="DIR",
        help="the sink's directory, as its applications name it: a path, or a URI of HDFS",
    )
    add_flags(parser, Use.GROUPS, (*ACL_OPTIONS, *BROKER_OPTIONS))
    try:
        said, left = finish(parser.parse_args(argv))
        out(f"{said}\n", done=said)
    except ZkcoordError as error:
        err(f"{PROG}: {printable(' '.join(str(error).split()))}\n")
        return BAD_USE if isinstance(error, ConfigurationError) else CANNOT
    except KeyboardInterrupt:
        return INTERRUPTED
    for path, why in left.items():
        err(
            f"{PROG}: {printable(path)} was left alone: {printable(why)}; see who made it, then"
            " delete it\n"
        )
    return CANNOT if left else OK


def finish(args: argparse.Namespace) -> tuple[str, dict[str, str]]:
    """Recover once; what is to be said about it, and which intents were left alone, and why. Raises
    `ZkcoordError`.
    """
    settings = resolve(Use.GROUPS, vars(args), os.environ)
    options, layout, group = (
        zk_options(settings),
        layout_named(settings.text("layout")),
        validate_group(args.group),
    )
    files = _files(args.directory)
    keeper = Keeper(options)
    try:
        place = publication.SinkPlace(layout, group, files.uri)
        before = recover(place, keeper, files)
        left = committed(place, keeper)
    finally:
        keeper.close()
    theirs = (
        " (those of applications that live, or write to another directory, are theirs to finish)"
    )
    said = f"{before} committed batches of {group} were not visible, {left} are not now"
    return f"{said}{theirs if left else ''}", keeper.left


def _files(directory: str) -> Files:
    """A local directory needs no Spark."""
    if scheme_of(directory) in ("", "file"):
        files = local_files(directory)
        if not files.root.is_dir():
            raise ConfigurationError(
                f"--directory is {directory!a}, and there is no such directory: name the one that"
                " the applications write to"
            )
        return files
    from pyspark.sql import SparkSession

    return files_at(directory, SparkSession.builder.getOrCreate())


if __name__ == "__main__":
    raise SystemExit(main())
