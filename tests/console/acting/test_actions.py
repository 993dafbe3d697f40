"""Actions as arguments of the command line: what a reader types is a value, never an option."""

from __future__ import annotations

import contextlib

import pytest

from zkcoord.cli.main import main
from zkcoord.console.acting.actions import (
    ACTIONS,
    AIMS,
    OF_GROUPS,
    TEXT_CHARS_MAX,
    TOPICS_MAX,
    GroupAction,
    NotSaidError,
)

HOSTILE = ["--execute", "-h", "--zookeeper=evil:1", "--", "a b", "'; rm -rf /", "$(id)", "ü\u2028"]


@pytest.mark.parametrize(
    ("name", "said", "look", "does"),
    [
        ("rebalance", {}, "groups describe -- g", "groups rebalance -- g"),
        ("rebalance", {"fresh": "on"}, "groups describe -- g", "groups rebalance --fresh -- g"),
        ("rebalance", {"fresh": "yes"}, "groups describe -- g", "groups rebalance -- g"),
        (
            "reset",
            {"to": "earliest"},
            "offsets reset --to-earliest --all-topics -- g",
            "offsets reset --to-earliest --all-topics --execute -- g",
        ),
        (
            "reset",
            {"to": "shift-by", "value": "-100", "topics": " a  b:0,1 ", "live": "on"},
            "offsets reset --shift-by=-100 --topic=a --topic=b:0,1 --live -- g",
            "offsets reset --shift-by=-100 --topic=a --topic=b:0,1 --live --execute -- g",
        ),
        (
            "reset",
            {"to": "duration", "value": "PT1H"},
            "offsets reset --by-duration=PT1H --all-topics -- g",
            "offsets reset --by-duration=PT1H --all-topics --execute -- g",
        ),
        ("pause", {}, "groups pause -- g", "groups pause --execute -- g"),
        ("resume", {}, "groups resume -- g", "groups resume --execute -- g"),
        (
            "evict",
            {"member": "g_host-1"},
            "groups evict -- g g_host-1",
            "groups evict --execute -- g g_host-1",
        ),
        ("mode", {"mode": "mixed"}, "groups mode -- g", "groups mode -- g mixed"),
        ("delete", {}, "groups delete -- g", "groups delete --execute -- g"),
        (
            "delete",
            {"keep-offsets": "on"},
            "groups delete --keep-offsets -- g",
            "groups delete --keep-offsets --execute -- g",
        ),
    ],
)
def test_the_commands(name: str, said: dict[str, str], look: str, does: str) -> None:
    action = ACTIONS[name]
    assert action.look("g", said) == look.split()
    assert action.does("g", said) == does.split()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reset", {}),
        ("reset", {"to": "current"}),
        ("reset", {"to": "offset"}),
        ("reset", {"to": "offset", "value": " "}),
        ("reset", {"to": "offset", "value": "1\n--execute"}),
        ("reset", {"to": "offset", "value": "1" * (TEXT_CHARS_MAX + 1)}),
        ("reset", {"to": "latest", "topics": "t " * (TOPICS_MAX + 1)}),
        ("reset", {"to": "latest", "topics": "t\x00"}),
        ("evict", {}),
        ("evict", {"member": "a\nb"}),
        ("mode", {}),
        ("mode", {"mode": "--execute"}),
    ],
)
def test_what_is_missing_is_said(name: str, said: dict[str, str]) -> None:
    for step in (ACTIONS[name].look, ACTIONS[name].does):
        with pytest.raises(NotSaidError):
            step("g", said)


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("action", OF_GROUPS, ids=lambda action: action.name)
def test_what_is_typed_is_never_an_option(action: GroupAction, hostile: str) -> None:
    """Behind `--` there is the group alone, and a mode, of which there are three."""
    for aim in AIMS:
        said = {"to": aim, "value": hostile, "topics": hostile, "mode": "mixed", "member": hostile}
        with contextlib.suppress(NotSaidError):
            look, does = action.look(hostile, said), action.does(hostile, said)
            assert "--execute" not in look[: look.index("--")]
            for found in (look, does):
                ours = found[: found.index("--")]
                typed = [one for one in ours if "=" not in one and one != "--execute"]
                assert hostile not in typed or hostile == "--"
                assert found[found.index("--") + 1] == hostile


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda action: action.name)
def test_each_is_a_command_that_there_is(
    action: GroupAction, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parser takes it, and then finds nobody where it is to ask."""
    said = {"to": "latest", "mode": "mixed", "member": "m"}
    for found in (action.look("g", said), action.does("g", said)):
        at = found.index("--") if "--" in found else len(found)
        nowhere = ["--zookeeper=127.0.0.1:1", "--connect-timeout-ms=1"]
        assert main([*found[:at], *nowhere, *found[at:]]) == 1, capsys.readouterr().err
        assert "127.0.0.1:1" in capsys.readouterr().err
