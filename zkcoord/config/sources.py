"""Where an option's value comes from: flag, else environment, else file, else default; and what is
refused.

A file is TOML or JSON, told apart by its ending, one flat table of the options' names. TOML is for
people (comments); Python reads it itself from 3.11 on, and on 3.10 where the package tomli is
installed. JSON always works, and is what programs write. Other formats bring dependencies (YAML) or
no types (INI).

Nothing unknown is taken in silence. An unknown name in a file or among the flags is refused with
the nearest known one. The environment belongs to others too (an orchestrator puts
ZKCOORD_SERVICE_HOST there for a service of that name), so an unknown ZKCOORD_ variable is refused
only where it looks like a misspelt option, and else reported.

Every refusal is one sentence (`ConfigurationError`) that names the place the value came from and
what to write instead. Values of secret options are never quoted.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zkcoord.config.files import read_file
from zkcoord.config.option_spec import ENVIRONMENT_PREFIX, OptionKind, OptionSpec, Use, Value
from zkcoord.config.options import SECTIONS, TABLE, options_of
from zkcoord.errors import ConfigurationError
from zkcoord.words import yes_or_no
from zkcoord.znodes.names import shown

CONFIG_BYTES_MAX = 1024 * 1024
NEAR = 0.7
FOREIGN_VARIABLES = frozenset(
    {"ZKCOORD_CONFIG", "ZKCOORD_CACHE", "ZKCOORD_GUARDIAN_SOCKET", "ZKCOORD_ON_BEHALF_OF"}
)


@dataclass(frozen=True)
class Settings:
    """Resolved values. `origin` says for each that was given where: a flag, a variable, or a name
    in a file. `notes` are sentences worth a log line.
    """

    values: Mapping[str, Value] = field(repr=False)
    origin: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def given(self, name: str) -> bool:
        """Whether somebody set it, whatever to."""
        return name in self.origin

    def where(self, name: str) -> str:
        """How to call it in a message: where it was set, or else its flag."""
        return self.origin.get(name, TABLE[name].flag)

    def text(self, name: str) -> str:
        """A TEXT that is set, else empty."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def optional(self, name: str) -> str | None:
        """A TEXT, None where it is not set."""
        return self.text(name) or None

    def number(self, name: str) -> int:
        """An INTEGER that has a default."""
        value = self.values[name]
        assert isinstance(value, int), name
        return value

    def switch(self, name: str) -> bool:
        """A SWITCH."""
        return bool(self.values[name])


def add_flags(parser: argparse.ArgumentParser, use: Use, leave_out: tuple[str, ...] = ()) -> None:
    """The table's options as flags of a command, in named sections. Values stay text: `resolve`
    judges them all alike.
    """
    parser.add_argument(
        "--config",
        metavar="PATH",
        help="a .toml or .json file with any of these options (also: ZKCOORD_CONFIG)",
    )
    for title, options in SECTIONS.items():
        fitting = [
            option for option in options if use in option.uses and option.name not in leave_out
        ]
        section = parser.add_argument_group(title) if fitting else None
        for option in fitting:
            assert section is not None
            default = option.default_text
            text = option.help.replace("%", "%%") + (f" (default: {default})" if default else "")
            if option.kind is OptionKind.SWITCH:
                section.add_argument(
                    option.flag,
                    dest=option.name,
                    action=argparse.BooleanOptionalAction,
                    default=argparse.SUPPRESS,
                    help=text,
                )
            else:
                metavar = "{" + ",".join(option.choices) + "}" if option.choices else option.metavar
                section.add_argument(
                    option.flag,
                    dest=option.name,
                    metavar=metavar,
                    default=argparse.SUPPRESS,
                    help=text,
                )


def resolve(use: Use, flags: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """The values that a command works with. `flags` are the parsed arguments by name (others than
    options are left alone). Raises `ConfigurationError`.
    """
    values: dict[str, Value] = {option.name: option.default for option in options_of(use)}
    origin: dict[str, str] = {}
    path = flags.get("config") or environment.get("ZKCOORD_CONFIG")
    if path:
        for name, raw in _file(str(path)).items():
            _set(values, origin, TABLE[name], raw, f"{name} in {path}")
    variables = {option.variable: option for option in TABLE.values()}
    for variable, raw in environment.items():
        if variable in variables and raw != "":
            _set(values, origin, variables[variable], raw, variable)
    notes = _unknown_variables(environment, variables)
    for name, raw in flags.items():
        if name in TABLE and raw is not None:
            option = TABLE[name]
            flag = (
                f"--no-{option.flag[2:]}"
                if option.kind is OptionKind.SWITCH and raw is False
                else option.flag
            )
            _set(values, origin, option, raw, flag)
    return Settings(values, origin, notes)


def _set(
    values: dict[str, Value], origin: dict[str, str], option: OptionSpec, raw: Any, where: str
) -> None:
    """Take one value. Options of other commands may stand in a shared file or environment; they are
    judged too, and not used.
    """
    value = _value(option, raw, where)
    if option.name in values:
        values[option.name] = value
        origin[option.name] = where


def _value(option: OptionSpec, raw: Any, where: str) -> Value:
    quoted = "that value" if option.secret else shown(str(raw))
    if option.kind is OptionKind.SWITCH:
        try:
            return yes_or_no(str(raw))
        except ValueError:
            raise ConfigurationError(f"{where} is {quoted}: write on or off") from None
    if option.kind is OptionKind.INTEGER:
        return _integer(option, raw, where, quoted)
    if not isinstance(raw, str):
        raise ConfigurationError(f"{where} is {quoted}: write a text in quotes")
    if option.choices and raw not in option.choices:
        near = _nearest(raw, option.choices)
        raise ConfigurationError(
            f"{where} is {quoted}: write {near if near else ' or '.join(option.choices)}"
            + (f" (there is {', '.join(option.choices)})" if near else "")
        )
    if not raw.strip() or not raw.isprintable():
        raise ConfigurationError(
            f"{where} is empty or has control characters: write {option.metavar or 'a text'}, or"
            " leave it out"
        )
    return raw


def _integer(option: OptionSpec, raw: Any, where: str, quoted: str) -> int:
    text = str(raw).replace("_", "") if not isinstance(raw, bool) else ""
    digits = text[1:] if text.startswith("-") else text
    unit = f" ({option.unit})" if option.unit not in ("", "count") else ""
    if (
        not (digits.isascii() and digits.isdigit())
        or len(digits) > 18
        or not option.low <= int(text) <= option.high
    ):
        raise ConfigurationError(
            f"{where} is {quoted}: write a whole number from {option.low} to {option.high}{unit}"
        )
    return int(text)


def _unknown_variables(
    environment: Mapping[str, str], variables: Mapping[str, OptionSpec]
) -> tuple[str, ...]:
    notes = []
    for variable in sorted(environment):
        if (
            not variable.startswith(ENVIRONMENT_PREFIX)
            or variable in variables
            or variable in FOREIGN_VARIABLES
        ):
            continue
        near = _nearest(variable[len(ENVIRONMENT_PREFIX) :].lower(), TABLE)
        if near:
            raise ConfigurationError(
                f"the environment variable {shown(variable)} is not an option: write"
                f" {TABLE[near].variable}, or unset it"
            )
        notes.append(
            f"the environment variable {shown(variable)} is not an option and has no effect"
        )
    return tuple(notes)


def _file(path: str) -> dict[str, Any]:
    """The options in a file, by name."""
    found = read_table(path)
    options: dict[str, Any] = {}
    for key, raw in found.items():
        name = key.replace("-", "_")
        if name not in TABLE:
            if isinstance(raw, dict):
                raise ConfigurationError(
                    f"{shown(key)} in {path} is a table: write all options side by side, in none"
                )
            near = _nearest(name, TABLE)
            raise ConfigurationError(
                f"{shown(key)} in {path} is not an option: "
                + (
                    f"write {near}"
                    if near
                    else "see zkcoord coordinator --help for those that there are"
                )
            )
        if isinstance(raw, (dict, list)) or raw is None:
            what = "null: leave it out, or write" if raw is None else "not a single value: write"
            raise ConfigurationError(
                f"{name} in {path} is {what} {TABLE[name].metavar or TABLE[name].kind.value}"
            )
        options[name] = raw
    return options


def read_table(path: str, example: str = '{"zookeeper": "host:port", ...}') -> dict[str, Any]:
    """What a .toml or .json file holds. Raises `ConfigurationError`."""
    return _parsed(path, _bytes(path), example)


def _bytes(path: str) -> bytes:
    try:
        data = read_file(path, CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError(
            f"the configuration file {path} cannot be read ({error.strerror}): correct its name"
        ) from error
    if len(data) > CONFIG_BYTES_MAX:
        raise ConfigurationError(
            f"the configuration file {path} is larger than {CONFIG_BYTES_MAX} bytes: name a file of"
            " options"
        )
    return data


def _parsed(path: str, data: bytes, example: str) -> dict[str, Any]:
    ending = Path(path).suffix.lower()
    if ending not in (".toml", ".json"):
        raise ConfigurationError(
            f"the configuration file {path} is neither .toml nor .json: give it one of these"
            " endings"
        )
    try:
        text = data.decode("utf-8")
        found = json.loads(text) if ending == ".json" else _toml(path).loads(text)
    # JSONDecodeError, TOMLDecodeError and UnicodeDecodeError are ValueErrors
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or "nested too deeply"
        raise ConfigurationError(
            f"the configuration file {path} is not {ending[1:].upper()} ({reason[:200]}): correct"
            " it there"
        ) from error
    if not isinstance(found, dict):
        raise ConfigurationError(
            f"the configuration file {path} does not hold one table of options: write {example}"
        )
    return found


def _toml(path: str) -> Any:
    """Python's own reader, or tomli, which is the same for 3.10."""
    for module in ("tomllib", "tomli"):
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError:
            continue
    raise ConfigurationError(
        f"{path} is TOML, which this Python reads only with the package tomli: install it (pip"
        " install tomli), or write the same options as JSON into a .json file"
    )


def nearest_flag(flag: str, flags: list[str]) -> str:
    """The flag that was probably meant; empty where none is near."""
    return _nearest(flag, flags)


def _nearest(name: str, names: Any) -> str:
    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=NEAR)), "")
