"""Numbers on the command line, and in what it says."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

import pytest

from zkcoord.cli.main import COMMANDS, CliParser
from zkcoord.errors import ConfigurationError
from zkcoord.words import counted


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A command's parser, and those of the commands below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


def numeric() -> Iterator[tuple[argparse.ArgumentParser, argparse.Action]]:
    """Every option and argument that is a number."""
    top = CliParser(prog="zkcoord")
    commands = top.add_subparsers(parser_class=CliParser)
    for about in COMMANDS.values():
        importlib.import_module(about.module).add_parser(commands)
    for parser in parsers(top):
        for action in parser._actions:
            if action.type in (int, float):
                yield parser, action


EVERY = list(numeric())


def test_there_are_some() -> None:
    flags = {flag for _, action in EVERY for flag in action.option_strings}
    assert {"--to-offset", "--shift-by", "--timeout-ms", "--interval-ms", "--for"} <= flags


@pytest.mark.parametrize("given", ["x", "", "1.5.2", "null", "٣x", "9" * 5_000])
def test_what_is_no_number_is_told_what_is_expected(given: str) -> None:
    for parser, action in EVERY:
        if action.type is float and given.isdigit():
            continue
        assert isinstance(parser, CliParser), "whose words these are"
        with pytest.raises(ConfigurationError) as refused:
            parser._get_value(action, given)
        said = str(refused.value)
        assert said.startswith(f"{'/'.join(action.option_strings)} is ") and "write a " in said
        assert "invalid" not in said and len(said) < 250 and parser.prog in said


def test_how_many_there_are() -> None:
    assert counted(1, "offset", "was") == "1 offset was"
    assert counted(0, "offset", "was") == "0 offsets were" and counted(2, "topic") == "2 topics"
    assert counted(1, "partition", "has") == "1 partition has"
    assert counted(3, "entry", "is") == "3 entries are"
