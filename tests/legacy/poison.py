"""Registrations that other clients and tools have written, and which releases of the old consumer
they kill: every member of a group reads every registration, and gives up when it cannot.

What each does to the real consumers is shown by test_poison.py, release by release; a group of ours
goes on beside all of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.legacy.jars import V0_8, V0_11, V1_1

ALL = (V1_1, V0_11, V0_8)
SCALA_JSON = (V0_11, V0_8)
ELSEWHERE = "elsewhere"


@dataclass(frozen=True)
class Registration:
    """One child of ids. `kills`: the releases whose members give up while it is there."""

    name: str
    data: bytes | None
    kills: tuple[str, ...] = ()


def _document(**fields: Any) -> bytes:
    """A valid registration for a topic that does not exist, some fields changed; None leaves one
    out.
    """
    usual: dict[str, Any] = {
        "version": 1,
        "subscription": {ELSEWHERE: 1},
        "pattern": "static",
        "timestamp": "1700000000000",
    }
    return json.dumps(
        {name: value for name, value in {**usual, **fields}.items() if value is not None},
        ensure_ascii=False,
    ).encode()


POISON = (
    Registration("a topic's name", ELSEWHERE.encode(), ALL),
    Registration("empty", b"", ALL),
    Registration("null", None, ALL),
    Registration("no pattern", _document(pattern=None), ALL),
    Registration("no threads", _document(subscription={ELSEWHERE: 0}), ALL),
    Registration("not an expression", _document(subscription={"*[": 1}, pattern="white_list"), ALL),
    Registration("a number as timestamp", _document(timestamp=1_700_000_000_000), SCALA_JSON),
    Registration("a fraction", _document(weight=1.5), SCALA_JSON),
)
HARMLESS = (
    Registration("one field more", _document(zkcoord="1")),
    Registration("small numbers in an object", _document(more={"a": 1, "b": 2})),
    Registration("version 2", _document(version=2)),
    Registration("no version, no timestamp", _document(version=None, timestamp=None)),
    Registration("no topics", _document(subscription={})),
    Registration("an unknown kind of pattern", _document(pattern="grey_list")),
    Registration("not only ASCII", _document(note="n\u00f6t only ASCII")),
)
