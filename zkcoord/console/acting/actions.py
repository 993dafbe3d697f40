"""Each action as a command of the command line: what it is called, what its reader says, and the
arguments that come of that. Pure.

What was typed never becomes an option: values stand behind an `=`, names behind `--`. What a
command refuses is refused in its own words; here only what is no text of one line is, and what is
too long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

TEXT_CHARS_MAX = 2_000
TOPICS_MAX = 100
COORDINATOR = "step-down"
"""The one that is about no group."""


class NotSaidError(Exception):
    """Something is missing, or cannot be; the text says what to write."""


@dataclass(frozen=True)
class ActionField:
    """What a reader says: one of `choices`, or whether (`is_switch`), or a text."""

    name: str
    label: str
    choices: tuple[str, ...] = ()
    is_switch: bool = False
    hint: str = ""


Said = Mapping[str, str]
Arguments = Callable[[str, Said], list[str]]


@dataclass(frozen=True)
class GroupAction:
    """`look` are the arguments of the command that says what would happen, and changes nothing;
    `does` of the one that does it. `what` is a sentence for readers.
    """

    name: str
    title: str
    what: str
    look: Arguments
    does: Arguments
    fields: tuple[ActionField, ...] = ()


AIMS = ("earliest", "latest", "offset", "shift-by", "datetime", "duration")
VALUED = {
    "offset": "--to-offset",
    "shift-by": "--shift-by",
    "datetime": "--to-datetime",
    "duration": "--by-duration",
}
UNDER_WAY = "PreparingRebalance,CompletingRebalance"
MODES = ("coordinated", "mixed", "legacy")


def _text(said: Said, name: str, what: str) -> str:
    text = said.get(name, "").strip()
    if not text:
        raise NotSaidError(f"{what} is missing: write it")
    if len(text) > TEXT_CHARS_MAX or not text.isprintable():
        raise NotSaidError(f"{what} is too long, or is no text of one line: write a shorter one")
    return text


def _one_of(said: Said, name: str, choices: tuple[str, ...]) -> str:
    found = said.get(name, "")
    if found not in choices:
        raise NotSaidError(f"which {name}? Choose one of {', '.join(choices)}")
    return found


def _is_on(said: Said, name: str) -> bool:
    return said.get(name) == "on"


def _rebalance(group: str, said: Said) -> list[str]:
    fresh = ["--fresh"] if _is_on(said, "fresh") else []
    return ["groups", "rebalance", *fresh, "--", group]


def _reset(group: str, said: Said) -> list[str]:
    aim = _one_of(said, "to", AIMS)
    if aim in VALUED:
        towards = f"{VALUED[aim]}={_text(said, 'value', f'the value of {aim}')}"
    else:
        towards = f"--to-{aim}"
    topics = said.get("topics", "").split()
    if len(topics) > TOPICS_MAX:
        raise NotSaidError(f"{len(topics)} topics are too many: name {TOPICS_MAX} at a time")
    named = [f"--topic={_text({'topic': one}, 'topic', 'a topic')}" for one in topics]
    live = ["--live"] if _is_on(said, "live") else []
    return ["offsets", "reset", towards, *(named or ["--all-topics"]), *live, "--", group]


def _delete(group: str, said: Said) -> list[str]:
    kept = ["--keep-offsets"] if _is_on(said, "keep-offsets") else []
    return ["groups", "delete", *kept, "--", group]


def _evict(group: str, said: Said) -> list[str]:
    return ["groups", "evict", "--", group, _text(said, "member", "the member's name")]


def _pause(group: str, said: Said) -> list[str]:
    return ["groups", "pause", "--", group]


def _resume(group: str, said: Said) -> list[str]:
    return ["groups", "resume", "--", group]


def _executed(arguments: Arguments) -> Arguments:
    def does(group: str, said: Said) -> list[str]:
        found = arguments(group, said)
        at = found.index("--")
        return [*found[:at], "--execute", *found[at:]]

    return does


def _describe(group: str, said: Said) -> list[str]:
    return ["groups", "describe", "--", group]


def _mode(group: str, said: Said) -> list[str]:
    return ["groups", "mode", "--", group, _one_of(said, "mode", MODES)]


def _has_mode(group: str, said: Said) -> list[str]:
    _one_of(said, "mode", MODES)
    return ["groups", "mode", "--", group]


ACTIONS: Mapping[str, GroupAction] = {
    action.name: action
    for action in (
        GroupAction(
            "rebalance",
            "Rebalance",
            "The coordinator assigns the group's partitions anew, also out of quarantine. Only what"
            " moves stops.",
            _describe,
            _rebalance,
            (ActionField("fresh", "As if nobody owned anything now", is_switch=True),),
        ),
        GroupAction(
            "reset",
            "Reset offsets",
            "Other offsets are stored for the group. Its members must be stopped before, or seek to"
            " them.",
            _reset,
            _executed(_reset),
            (
                ActionField("to", "To", choices=AIMS),
                ActionField(
                    "value",
                    "Value",
                    hint="an offset, -100, 2026-01-31T10:00:00Z, PT30M; none for earliest, latest",
                ),
                ActionField("topics", "Topics", hint="orders clicks:0,2; none: all of the group's"),
                ActionField("live", "Members stay, and seek", is_switch=True),
            ),
        ),
        GroupAction(
            "pause",
            "Pause",
            "Members stay, and nothing is handed out to anybody until the group is resumed.",
            _pause,
            _executed(_pause),
        ),
        GroupAction(
            "resume",
            "Resume",
            "A paused group's partitions are handed out again, from the committed offsets.",
            _resume,
            _executed(_resume),
        ),
        GroupAction(
            "evict",
            "Evict a member",
            "The coordinator puts a member out of the group now. A living process comes back under"
            " a new name by itself.",
            _evict,
            _executed(_evict),
            (ActionField("member", "Member", hint="its name, as the group's page has it"),),
        ),
        GroupAction(
            "mode",
            "Change the mode",
            "Says whom the group belongs to: its old consumers (legacy), both (mixed), or the"
            " coordinator (coordinated).",
            _has_mode,
            _mode,
            (ActionField("mode", "Mode", choices=MODES),),
        ),
        GroupAction(
            "delete",
            "Delete",
            "The group, which has no members any more, is deleted, with its offsets.",
            _delete,
            _executed(_delete),
            (ActionField("keep-offsets", "Keep its offsets", is_switch=True),),
        ),
        GroupAction(
            COORDINATOR,
            "Step down",
            "The coordinator that leads resigns, and another one leads. No consumer notices.",
            lambda group, said: ["groups", "list", f"--state={UNDER_WAY}"],
            lambda group, said: ["coordinator", "step-down"],
        ),
    )
}
OF_GROUPS = tuple(action for action in ACTIONS.values() if action.name != COORDINATOR)
