"""What an option of the command line is: its name in a file, as a flag and in the environment, its
kind, its bounds and its unit. The table of all options is `zkcoord.config.options`.
"""

from __future__ import annotations

import enum

from zkcoord.core.value_type import value

Value = str | int | bool | None

ENVIRONMENT_PREFIX = "ZKCOORD_"


class OptionKind(enum.Enum):
    """What an option's text stands for."""

    TEXT = "text"
    INTEGER = "number"
    SWITCH = "on or off"


class Use(enum.Enum):
    """Which commands take an option."""

    COORDINATOR = "coordinator"
    GROUPS = "groups"
    JOURNAL = "journal"
    GATEWAY = "gateway"


@value
class OptionSpec:
    """One option. `default` None: not set. `low` and `high` bound an INTEGER; `choices` a TEXT;
    `secret` values are never shown; `metavar` names the value in `--help`.
    """

    name: str
    kind: OptionKind
    default: Value
    help: str
    uses: tuple[Use, ...] = (Use.COORDINATOR,)
    low: int = 0
    high: int = 2**31 - 1
    choices: tuple[str, ...] = ()
    secret: bool = False
    metavar: str = ""

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def default_text(self) -> str:
        """The default as one would write it; empty where there is none."""
        if self.default is None:
            return ""
        if isinstance(self.default, bool):
            return "on" if self.default else "off"
        return str(self.default)

    @property
    def unit(self) -> str:
        """The unit that its name ends with, for people."""
        return next((unit for suffix, unit in UNITS.items() if self.name.endswith(suffix)), "")


UNITS = {
    "_ms": "ms",
    "_ms_max": "ms",
    "_bytes_max": "bytes",
    "_percent": "%",
    "_max": "count",
    "_max_ms": "ms",
    "_mb": "MiB",
}


def text(
    name: str,
    default: str | None,
    help: str,
    uses: tuple[Use, ...] = (Use.COORDINATOR,),
    choices: tuple[str, ...] = (),
    secret: bool = False,
    metavar: str = "TEXT",
) -> OptionSpec:
    return OptionSpec(
        name, OptionKind.TEXT, default, help, uses, choices=choices, secret=secret, metavar=metavar
    )


def number(
    name: str,
    default: int | None,
    help: str,
    low: int,
    high: int,
    uses: tuple[Use, ...] = (Use.COORDINATOR,),
    metavar: str = "N",
) -> OptionSpec:
    return OptionSpec(name, OptionKind.INTEGER, default, help, uses, low, high, metavar=metavar)


def switch(
    name: str, default: bool, help: str, uses: tuple[Use, ...] = (Use.COORDINATOR,)
) -> OptionSpec:
    return OptionSpec(name, OptionKind.SWITCH, default, help, uses)
