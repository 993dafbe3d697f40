"""`zkcoord stack up|down|status|fetch`: the command line of the stack. What it prints is for
people, except `status --json`.

Exit status: 0 done (or, for `status`, a server runs and none is gone), 1 it cannot be done and one
sentence on stderr says why, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from zkcoord.errors import StackError
from zkcoord.stack import jars
from zkcoord.stack.java import find_java
from zkcoord.stack.stack import (
    DEFAULT_FOLDER,
    KafkaKind,
    ServerState,
    Stack,
    StackStatus,
    terminable,
)

EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
_STATES = {
    ServerState.RUNNING: "running, pid {pid}",
    ServerState.STOPPED: "stopped",
    ServerState.GONE: "gone (see its log)",
}
_EXAMPLES = """examples:
  zkcoord stack up                   start ZooKeeper and Kafka, their files under ./.zkcoord-stack
  zkcoord stack up --no-kafka        only ZooKeeper
  zkcoord stack up --kafka 4         Kafka 4, which has no ZooKeeper underneath; it is zkcoord's own
  zkcoord stack status --json        addresses and pids for a script
  zkcoord stack down                 stop both; their data stays
  zkcoord stack fetch                download what `up` will need, for later without a network
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand `stack` to the `zkcoord` command."""
    parser = subparsers.add_parser(
        "stack",
        help="start and stop a local ZooKeeper and Kafka to try zkcoord with",
        description=(
            "A real ZooKeeper and a real Kafka broker on loopback ports. Ports, data and logs are"
            " under one folder."
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(
        dest="stack_action", required=True, metavar="up|down|status|fetch"
    )
    up = actions.add_parser("up", help="start what does not run yet, and wait until it serves")
    up.add_argument("--no-kafka", action="store_true", help="only ZooKeeper")
    down = actions.add_parser("down", help="stop both; their data stays")
    status = actions.add_parser("status", help="say what runs, where")
    status.add_argument("--json", action="store_true", help="as JSON")
    fetch = actions.add_parser("fetch", help="download what `up` will need, and start nothing")
    for action in (up, fetch):
        action.add_argument(
            "--kafka",
            choices=("3.9", "4"),
            help="which Kafka (default: the one before, else 3.9); 4 has no ZooKeeper underneath",
        )
    up.add_argument("--kraft", action="store_true", help="no ZooKeeper underneath Kafka 3.9, too")
    for action in (up, down, status, fetch):
        action.add_argument(
            "--dir",
            type=Path,
            default=Path(DEFAULT_FOLDER),
            metavar="FOLDER",
            help=f"where everything is kept (default: {DEFAULT_FOLDER} in the current folder)",
        )


def run(args: argparse.Namespace) -> int:
    """Carry out a parsed `zkcoord stack ...` and return its exit status."""
    stack = Stack(args.dir, progress=_say)
    try:
        if args.stack_action == "up":
            with terminable():
                return _up(stack, args)
        if args.stack_action == "down":
            stack.down()
            _say("Nothing runs.")
            return EXIT_OK
        if args.stack_action == "fetch":
            jars.resolve(jars.KAFKA_4 if args.kafka == "4" else jars.KAFKA, find_java(), _say)
            return EXIT_OK
        return _show(stack.status(), args.json)
    except StackError as error:
        print(error, file=sys.stderr)
        return EXIT_FAILED
    except OSError as error:
        print(
            f"The folder {args.dir} cannot be used ({error}): choose another with --dir.",
            file=sys.stderr,
        )
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("Interrupted: what this command had started is stopped again.", file=sys.stderr)
        return EXIT_INTERRUPTED


def _up(stack: Stack, args: argparse.Namespace) -> int:
    if args.no_kafka and (args.kafka or args.kraft):
        raise StackError("--no-kafka starts no Kafka: leave it out, or --kafka and --kraft.")
    status = stack.up(not args.no_kafka, _kind(args.kafka, args.kraft))
    _table(status)
    folder = "" if args.dir == Path(DEFAULT_FOLDER) else f" --dir {args.dir}"
    _say(f"Stop with: zkcoord stack down{folder}")
    return EXIT_OK


def _kind(version: str | None, kraft: bool) -> KafkaKind | None:
    if version == "4":
        return KafkaKind.KRAFT_4
    if kraft:
        return KafkaKind.KRAFT
    return KafkaKind.ZOOKEEPER if version else None


def _show(status: StackStatus, as_json: bool) -> int:
    if as_json:
        print(json.dumps(status.to_json(), indent=1))
    elif not status.servers:
        _say(f"Nothing was started from {status.folder}: `zkcoord stack up` does.")
    else:
        _table(status)
    return EXIT_OK if status.running else EXIT_FAILED


def _table(status: StackStatus) -> None:
    for name, server in status.servers.items():
        _say(
            f"{name:<10} {server.address:<16} {_STATES[server.state].format(pid=server.pid):<22}"
            f" log {server.log}"
        )


def _say(sentence: str) -> None:
    print(sentence, flush=True)


def main() -> int:
    """`python -m zkcoord.stack.cli up`: the same without the rest of the command line."""
    parser = argparse.ArgumentParser(prog="zkcoord")
    add_parser(parser.add_subparsers(required=True))
    return run(parser.parse_args(["stack", *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
