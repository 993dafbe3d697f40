"""`zkcoord guard`: the guardian where a companion of the process's own would not be left to act.

    zkcoord guard -- COMMAND ...            as PID 1 of a container, or in front of any process:
                                            start it, forward signals, end with its status
    zkcoord guard --socket PATH             as a sidecar: guard whoever connects
                                            (ZKCOORD_GUARDIAN_SOCKET=PATH in their environment)
    zkcoord guard --socket PATH --pid N     the same for one process; ends with it

Processes and sidecar share a PID namespace and a user; where they run as others, `--uid` names
those. A process that reaches ZooKeeper by TLS names its files, and the guardian opens only those
that it was given itself (`--tls-file`). A sidecar that gets SIGTERM goes on until the processes
that it guards are gone (a pod's containers are told to stop all at once); SIGINT ends it at once.
"""

from __future__ import annotations

import argparse
import os
import pwd
import signal
import sys
from types import FrameType

from zkcoord.guardian.init import BAD_USE_STATUS, run_command
from zkcoord.guardian.link import OpenFailure, open_pidfd
from zkcoord.guardian.serve import (
    SOCKET_MODE,
    SOCKET_MODE_OTHERS,
    CannotListen,
    GuardPolicy,
    GuardServer,
    listen,
    remove_socket,
)
from zkcoord.terminal import err, printable, shown

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
        "--uid",
        action="append",
        metavar="USER",
        help="a user whose processes are guarded, by number or name; may be repeated (default: the"
        " guardian's own)",
    )
    parser.add_argument(
        "--tls-file",
        action="append",
        metavar="PATH",
        help="a TLS file (authorities, certificate, key) that guarded processes may name; may be"
        " repeated (default: none)",
    )
    parser.add_argument(
        "--report", metavar="PATH", help="append a line of JSON for each closed session"
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
    policy = _policy(args)
    if isinstance(policy, str):
        return _refuse(policy)
    if command:
        return run_command(command, _say, args.socket, policy)
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
    return _serve(args.socket, args.pid, policy)


def _policy(args: argparse.Namespace) -> GuardPolicy | str:
    """Whom to serve, by the options; else what is wrong with them."""
    uids = set()
    for name in args.uid or [str(os.geteuid())]:
        try:
            uids.add(int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid)
        except (KeyError, ValueError):
            return f"there is no user {shown(name)} here: give --uid the user's number"
    files = frozenset(map(os.path.abspath, args.tls_file or ()))
    for path in sorted(files):
        if not os.access(path, os.R_OK):
            return f"--tls-file {shown(path)} cannot be read: name a file that this user can read"
    return GuardPolicy(
        frozenset(uids), files, os.path.abspath(args.report) if args.report else None
    )


def _serve(path: str, only_pid: int | None, policy: GuardPolicy) -> int:
    listener = listen(path, SOCKET_MODE_OTHERS if policy.has_others else SOCKET_MODE)
    if isinstance(listener, CannotListen):
        return _refuse(listener.sentence.rstrip("."))
    with listener:
        server = GuardServer(listener, _say, only_pid, policy)

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
    err(f"{printable(sentence)}\n")


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
