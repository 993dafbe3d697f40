"""Kafka's tools and admin clients say the same of a coordinated group as of one of Kafka's own
coordinator, but for what the table in docs/gateway.md names.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.clients import V3, V4
from tests.gateway.tools import commands
from tests.gateway.tools.compare import Difference, compared
from tests.gateway.tools.fields import different, fields, listed, plain, settings
from tests.gateway.tools.table import PAGE, Row, matches, rows, wrong
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker

OFFSETS = """
GROUP   TOPIC  PARTITION  CURRENT-OFFSET  LAG  CONSUMER-ID
g-1     t-1    0          7               3    -
g-2     t-1    0          8               3    -

Consumer group 'g-1' has no active members.
Consumer group 'g-2' has no active members.
\tat Tools.main(Tools.java:51)
"""
STATE = """
GROUP  COORDINATOR (ID)         ASSIGNMENT-STRATEGY  STATE   #MEMBERS
g-1    127.0.0.1:9092  (0)                           Empty   0
"""


def lines(said: str) -> list[str]:
    """Made the same."""
    return plain(said, {"g-1": "GROUP-A", "t-1": "TOPIC-A"})


def test_a_table_is_read_by_its_heading() -> None:
    found = fields(lines(OFFSETS), "GROUP-A")
    assert found["CURRENT-OFFSET of TOPIC-A 0"] == "7" and found["LAG of TOPIC-A 0"] == "3"
    assert found["text"] == "Consumer group 'GROUP-A' has no active members."
    assert not [name for name in found if name.startswith("text ")]
    state = fields(lines(STATE), "GROUP-A")
    assert state["COORDINATOR-(ID)"] == "127.0.0.1:PORT(0)"
    assert (state["ASSIGNMENT-STRATEGY"], state["STATE"], state["#MEMBERS"]) == ("", "Empty", "0")


def test_what_is_said_otherwise_is_found_field_by_field() -> None:
    ours = fields(lines(OFFSETS.replace("7  ", "6  ")), "GROUP-A")
    assert different(ours, fields(lines(OFFSETS), "GROUP-A")) == {
        "CURRENT-OFFSET of TOPIC-A 0": ("7", "6")
    }
    assert different(listed(["GROUP-B"], "GROUP-A"), listed(["GROUP-A"], "GROUP-A")) == {
        "row": ("GROUP-A", "-")
    }
    assert different(settings(["state=Dead"]), settings(["an error"])) == {
        "text": ("an error", "-"),
        "state": ("-", "Dead"),
    }


def test_the_table_fails_on_what_it_does_not_name_and_on_what_is_no_more() -> None:
    one = Difference("Admin", "describe, live", "coordinator", "id: 0 [x]", "id: 9")
    row = Row(("Admin", "describe, *", "coordinator", "id: 0*", "*", "why"))
    assert wrong([one], [row]) == []
    assert wrong([one], []) == [f"not in the table: {one}"]
    assert "does not occur any more" in wrong([], [row])[0]
    assert not matches("id: 0", "id: 00") and matches("*[x]", "id: 0 [x]")
    assert len(rows(PAGE.read_text(encoding="utf-8"))) > 5


def test_every_form_of_a_reset_is_asked() -> None:
    asked = " ".join(command.words for command in commands.WHEN_EMPTY)
    for form in (
        "--to-earliest --to-latest --to-offset --shift-by --by-duration --to-datetime --to-current"
        " --from-file --dry-run --execute --export --delete-offsets"
    ).split():
        assert form in asked


@pytest.mark.kafka
@pytest.mark.nightly
def test_tools_say_what_they_say_of_kafkas_own_groups(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, java: Java
) -> None:
    found = [
        one
        for version in (V3, V4)
        for one in compared(version, java, kafka_broker.address, kafka_zk_hosts, tmp_path / version)
    ]
    differences = wrong(found, rows(PAGE.read_text(encoding="utf-8")))
    assert not differences, "\n" + "\n".join(differences)
