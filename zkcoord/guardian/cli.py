"""`zkcoord guard`: the guardian where a companion of the process's own would not be left to act.

    zkcoord guard -- COMMAND ...            as PID 1 of a container, or in front of any process:
                                            start it, forward signals, end with its status
    zkcoord guard --socket PATH             as a sidecar: guard whoever connects
                                            (ZKCOORD_GUARDIAN_SOCKET=PATH in their environment)
    zkcoord guard --socket PATH --pid N     the same for one process; ends with it

Processes and sidecar share a PID namespace and a user (or the sidecar is root). A sidecar that gets
SIGTERM goes on until the processes that it guards are gone (a pod's containers are told to stop all
at once); SIGINT ends it at once.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from types import FrameType

from zkcoord.guardian.init import BAD_USE_STATUS, run_command
from zkcoord.guardian.link import OpenFailure, open_pidfd
from zkcoord.guardian.serve import CannotListen, GuardServer, listen, remove_socket

INTERRUPTED_STATUS = 130


class _GuardParser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage block around it."""

    def error(self, message: str) -> None:  # type: ignore[override]  # argparse's ends the process as well
        self.exit(BAD_USE_STATUS, f"zkcoord guard: {message}. See: zkcoord guard --help\n")


def fill_parser(parser: argparse.ArgumentParser) -> None:
    """The options of `zkcoord guard`."""
    parser.add_argument(
        "--socket", metavar="PATH", help="Unix socket to serve (@NAME: an abstract address)"
    )
    parser.add_argument(
        "--pid",
        type=int,
        metavar="N",
        help="guard this process alone, and end with it; needs --socket",
    )
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND ...",
        help="start this program and guard it",
    )


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `guard` to zkcoord's commands."""
    parser = subparsers.add_parser(
        "guard",
        help="close the ZooKeeper session of a process that dies, at once",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fill_parser(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0, the command's own status, 2 with one sentence for bad use, 130 after SIGINT."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if command and args.pid is not None:
        return _refuse("give either --pid N or a command, not both")
    if command:
        return run_command(command, _say, args.socket)
    if args.socket is None:
        return _refuse(
            "give --socket PATH to guard processes that connect there, or -- COMMAND ... to"
            " start one"
        )
    if args.pid is not None:
        opened = open_pidfd(args.pid)
        if isinstance(opened, OpenFailure):
            return _refuse(
                f"process {args.pid} cannot be guarded ({opened.detail}): give the number that it"
                " has in this PID namespace"
            )
        os.close(opened)
    return _serve(args.socket, args.pid)


def _serve(path: str, only_pid: int | None) -> int:
    listener = listen(path)
    if isinstance(listener, CannotListen):
        return _refuse(listener.sentence.rstrip("."))
    with listener:
        server = GuardServer(listener, _say, only_pid)

        def on_terminate(_: int, __: FrameType | None) -> None:
            server.wind_down()

        signal.signal(signal.SIGTERM, on_terminate)
        _say(f"Guarding processes at {path}: set ZKCOORD_GUARDIAN_SOCKET={path} for them.")
        try:
            server.run()
        except KeyboardInterrupt:
            _say("Interrupted: processes that were guarded here are not any more.")
            return INTERRUPTED_STATUS
        finally:
            remove_socket(path, listener)
    return 0


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _refuse(sentence: str) -> int:
    _say(f"zkcoord guard: {sentence}.")
    return BAD_USE_STATUS


def main(arguments: list[str] | None = None) -> int:
    """`python -m zkcoord.guardian`: the same without the rest of zkcoord; a leading `serve` or
    `guard` is accepted and means nothing.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] in (["serve"], ["guard"]):
        arguments = arguments[1:]
    parser = _GuardParser(
        prog="zkcoord guard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fill_parser(parser)
    return run(parser.parse_args(arguments))
