"""`zkcoord`: the command line.

    zkcoord coordinator     serve the groups of an ensemble
    zkcoord coordinator step-down    have another coordinator lead
    zkcoord groups          list, describe, judge, rebalance and delete groups
    zkcoord offsets         show, reset, delete and accept the offsets of a group
    zkcoord check           what is wrong on an ensemble with old consumers
    zkcoord acl             who may do what with zkcoord's nodes, and making it so
    zkcoord migrate         offsets from ZooKeeper's old consumers to coordinated groups, to Kafka,
                            and back
    zkcoord journal         what happened to a group, and why
    zkcoord replay          the decisions of a recorded coordinator again: why, and what if
    zkcoord stack           a ZooKeeper and a Kafka broker of one's own, for trying things
    zkcoord demo            a real group in all kinds of trouble, and a verdict
    zkcoord console         a web page: which groups are well, who blocks, and why
    zkcoord top             all groups in a terminal, the worst first
    zkcoord gateway         let unmodified Kafka clients be members of coordinated groups
    zkcoord guard           close a dead process's session at once, where it cannot have a companion
                            of its own

A command's module is imported when the command is used, so that `zkcoord --version` needs nothing
and a base install, without the extras, does all that it can.

Exit status: 0 done, 1 it cannot be done now (one sentence on standard error), 2 the command line or
the configuration is wrong (one sentence), 3 `zkcoord check`, `zkcoord acl audit` or `zkcoord groups
health` has found something, 130 after Ctrl-C. What was done is done (0) also where it cannot be
printed any more: standard error says so. No traceback for anything that a user or a server did.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

from zkcoord import __version__
from zkcoord.errors import ConfigurationError, ZkcoordError
from zkcoord.terminal import err, out, printable

OK, CANNOT, BAD_USE, INTERRUPTED = 0, 1, 2, 130
SENTENCE_CHARS_MAX = 1_000
EXPECTED = re.compile(r"argument ([^:]+): expected (?:one|at least one) argument")
MISSING = "arguments are required"


@dataclass(frozen=True)
class CliCommand:
    """A command's module has `add_parser(subparsers)` and `run(args) -> exit status`."""

    module: str
    help: str


COMMANDS = {
    "coordinator": CliCommand(
        "zkcoord.cli.coordinator", "serve the consumer groups of an ensemble"
    ),
    "coordinator step-down": CliCommand("zkcoord.cli.step_down", "have another coordinator lead"),
    "groups": CliCommand(
        "zkcoord.cli.groups", "list, describe, judge, rebalance and delete consumer groups"
    ),
    "offsets": CliCommand(
        "zkcoord.cli.offsets", "show, reset, delete and accept the offsets of a group"
    ),
    "check": CliCommand("zkcoord.cli.check", "what is wrong on an ensemble with old consumers"),
    "acl": CliCommand("zkcoord.cli.acl", "who may do what with zkcoord's nodes"),
    "migrate": CliCommand(
        "zkcoord.migrations.cli",
        "offsets from old consumers to coordinated groups, to Kafka, and back",
    ),
    "journal": CliCommand("zkcoord.cli.journal", "what happened to a group, and why"),
    "replay": CliCommand(
        "zkcoord.cli.replay", "what a coordinator decided and why, again and offline"
    ),
    "stack": CliCommand(
        "zkcoord.stack.cli", "start and stop a ZooKeeper and a Kafka broker for trying things"
    ),
    "demo": CliCommand("zkcoord.demo.cli", "a real group in all kinds of trouble, and a verdict"),
    "gateway": CliCommand(
        "consumer.gateway.cli", "let unmodified Kafka clients be members of coordinated groups"
    ),
    "console": CliCommand(
        "zkcoord.console.cli", "a web page: which groups are well, who blocks, and why"
    ),
    "top": CliCommand("zkcoord.console.terminal.top", "all groups in a terminal, the worst first"),
    "guard": CliCommand(
        "zkcoord.guardian.cli", "close the ZooKeeper session of a process that dies, at once"
    ),
}


NUMBERS: dict[object, str] = {int: "a whole number", float: "a number"}


class CliParser(argparse.ArgumentParser):
    """Refuses in one sentence, with the nearest flag or command where one was misspelt."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            near = _nearest(str(value), map(str, action.choices or ()))
            if not near:
                raise
            raise argparse.ArgumentError(
                action, f"{str(value)[:80]!a} is not known: write {near}"
            ) from None

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            kind = NUMBERS.get(action.type)
            if kind is None:
                raise
            name = "/".join(action.option_strings) or action.metavar
            raise ConfigurationError(
                f"{name} is {arg_string[:80]!a}: write {kind}, or see {self.prog} --help"
            ) from None

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """A name `--` behind the `--` that ends the options is a name; argparse drops it."""
        found = super()._get_values(action, list(arg_strings))
        return arg_strings[0] if found == [] and action.nargs is None else found

    def print_help(self, file: Any = None) -> None:
        """Help that was asked for; see `out`."""
        self._print_message(self.format_help(), file)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help or version; argparse says nothing of what it cannot print."""
        if message:
            out(message)

    def error(self, message: str) -> NoReturn:
        """Exit status 2."""
        raise ConfigurationError(f"{message}: see {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    name, given = _named(list(sys.argv[1:] if arguments is None else arguments))
    prog = f"zkcoord {name}" if name in COMMANDS else "zkcoord"
    try:
        return _main(given, name)
    except ConfigurationError as error:
        return _refused(prog, error, BAD_USE)
    except ZkcoordError as error:
        return _refused(prog, error, CANNOT)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        return OK


def _named(given: list[str]) -> tuple[str, list[str]]:
    """The command's name, and the arguments with that name as one of them: a name may have two
    words.
    """
    at = next((n for n, word in enumerate(given) if not word.startswith("-")), len(given))
    two = " ".join(given[at : at + 2])
    return (
        (two, [*given[:at], two, *given[at + 2 :]])
        if two in COMMANDS
        else ("".join(given[at : at + 1]), given)
    )


def _main(given: list[str], name: str) -> int:
    parser = CliParser(prog="zkcoord", description=__doc__)
    parser.add_argument("--version", action="version", version=f"zkcoord {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=CliParser)
    run: Callable[[argparse.Namespace], int] | None = None
    for command, about in COMMANDS.items():
        if command != name:
            subparsers.add_parser(command, help=about.help, add_help=False)
            continue
        module = importlib.import_module(about.module)
        module.add_parser(subparsers)
        run = module.run
    try:
        args, unknown = parser.parse_known_args(given)
    except ConfigurationError as error:
        dashed = _dashed(given, str(error), _of_subcommand(given, subparsers.choices.get(name)))
        raise ConfigurationError(f"{error}{dashed}") from None
    if unknown:
        at = given.index(name) + 1 if name in given else 0
        raise ConfigurationError(_unknown(given[at:], unknown[0], subparsers.choices.get(name)))
    if run is None:
        if args.command is None:
            parser.print_help()
            return BAD_USE
        raise ConfigurationError(f"{args.command!r} is no command: see zkcoord --help")
    return run(args)


def _nearest(word: str, commands: Iterable[str]) -> str:
    """The command that was probably meant, by its last word, too; "" for none."""
    known = {name: command for command in commands for name in (command, command.split()[-1])}
    near = difflib.get_close_matches(word.replace("_", "-"), known, n=1)
    return known[near[0]] if near else ""


def _unknown(given: Sequence[str], word: str, parser: argparse.ArgumentParser | None) -> str:
    from zkcoord.config.sources import nearest_flag

    flag = word.partition("=")[0]
    if parser is not None and not flag.startswith("-"):
        longer = [name for name in COMMANDS if f"zkcoord {name}".startswith(f"{parser.prog} ")]
        near = _nearest(flag, longer)
        if near:
            return f"{flag[:80]!a} is not known here: write zkcoord {near}"
    parser = _of_subcommand(given, parser)
    if parser is None:
        return f"{flag[:80]!a} is not known here: see zkcoord --help"
    near = nearest_flag(flag, [known for known in _flags(parser) if known != flag])
    return f"{flag[:80]!a} is not known to {parser.prog}: " + (
        f"write {near}" if near else f"leave it out, or see {parser.prog} --help{_as_name(parser)}"
    )


def _as_name(parser: argparse.ArgumentParser, word: str = "it") -> str:
    """How to give a name that looks like an option to a command that takes names."""
    takes = any(not (action.option_strings or action.choices) for action in parser._actions)
    return f" (where {word} is a name, write it at the end, after --)" if takes else ""


def _dashed(given: Sequence[str], refusal: str, parser: argparse.ArgumentParser | None) -> str:
    """The same where argparse has refused: what it wants is there, and looks like an option."""
    known = _flags(parser) if parser is not None else []
    words = [word for word in given if word[:1] == "-" and word.partition("=")[0] not in known]
    found = EXPECTED.search(refusal)
    if found is not None:
        for flag, value in pairwise(given):
            if flag in found[1].split("/") and value in words:
                return f" (a value that begins with - is written {flag}=VALUE)"
    elif parser is not None and MISSING in refusal and words:
        return _as_name(parser, f"{words[0][:80]!a}")
    return ""


def _of_subcommand(
    given: Sequence[str], parser: argparse.ArgumentParser | None
) -> argparse.ArgumentParser | None:
    """The parser that these arguments are for, in the end."""
    while parser is not None:
        below = _below(parser)
        chosen = next((word for word in given if word in below), None)
        if chosen is None:
            break
        given, parser = given[given.index(chosen) + 1 :], below[chosen]
    return parser


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {
        name: found
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, found in action.choices.items()
    }


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    """The flags of a command and of the commands below it."""
    found = [flag for action in parser._actions for flag in action.option_strings]
    return found + [flag for below in _below(parser).values() for flag in _flags(below)]


def _refused(prog: str, error: ZkcoordError, status: int) -> int:
    text = " ".join(str(error).split())[:SENTENCE_CHARS_MAX]
    err(f"{prog}: {printable(text)}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
