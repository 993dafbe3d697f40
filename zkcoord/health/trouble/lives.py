"""Who was a member from when to when, of a journal's records, and who it was before under another
name. Pure.

A consumer that comes again has another name. What stays is its instance id, or else where it runs
and what it calls itself; many consumers of one host may share that. So what is counted is never how
many came, but how many came one after another (`chain`): a deployment of ten consumers on a host is
ten that go and ten that come, and none after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zkcoord.core.value_type import value
from zkcoord.znodes.names import origin_of

NAMED_MAX = 1_000
"""Members that are read of one record: the journal names fewer."""


@value
class Life:
    """A member, by its name. `began_ms` None: before the first record; `over_ms` None: it is there
    still. `ended`: how its membership before ended, as it says; `asked`: an operator had it
    evicted.
    """

    member: str
    identity: str
    began_ms: int | None = None
    over_ms: int | None = None
    ended: str = ""
    evicted: bool = False
    asked: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it began and ended within the records."""
        return self.began_ms is not None and self.over_ms is not None

    @property
    def took_ms(self) -> int:
        """Of a whole one."""
        return max(0, (self.over_ms or 0) - (self.began_ms or 0))


def lives_of(group: str, records: Iterable[Mapping[str, Any]]) -> list[Life]:
    """In the order in which they are first named."""
    found: dict[str, Life] = {}
    for record in records:
        at_ms, kind = record["t"], record["kind"]
        if kind == "members":
            for one in _listed(record.get("joined")):
                life = _begun(group, at_ms, one)
                if life is not None and life.member not in found:
                    found[life.member] = life
            for name in _listed(record.get("left")):
                if isinstance(name, str):
                    _over(found, group, name, at_ms)
        elif kind == "evicted" and isinstance(record.get("member"), str):
            name = record["member"]
            life = found.setdefault(name, Life(name, identity_of(group, name)))
            found[name] = replace(
                life, evicted=True, over_ms=life.over_ms or at_ms, asked=bool(record.get("by"))
            )
    return list(found.values())


def _over(found: dict[str, Life], group: str, name: str, at_ms: int) -> None:
    life = found.setdefault(name, Life(name, identity_of(group, name)))
    if life.over_ms is None:
        found[name] = replace(life, over_ms=at_ms)


def _listed(value: Any) -> list[Any]:
    return value[:NAMED_MAX] if isinstance(value, list) else []


def _begun(group: str, at_ms: int, one: Any) -> Life | None:
    texts = (
        {key: value for key, value in one.items() if isinstance(value, str)}
        if isinstance(one, dict)
        else {}
    )
    name = texts.get("member", "")
    if not name:
        return None
    identity = identity_of(
        group, name, texts.get("host", ""), texts.get("client", ""), texts.get("instance", "")
    )
    return Life(name, identity, at_ms, ended=texts.get("ended", ""))


def identity_of(
    group: str, member: str, host: str = "", client: str = "", instance: str = ""
) -> str:
    """What stays of a member when it comes again."""
    if instance:
        return f"instance {instance}"
    origin = origin_of(group, member) or host or member
    return f"{client or 'a consumer'} at {host or origin}" + (
        f" ({origin})" if host and origin != host else ""
    )


def chain(lives: Sequence[Life]) -> list[Life]:
    """As many whole lives as can be one after another, the earliest end first."""
    found: list[Life] = []
    for life in sorted((one for one in lives if one.is_whole), key=lambda one: one.over_ms or 0):
        if not found or (life.began_ms or 0) >= (found[-1].over_ms or 0):
            found.append(life)
    return found


def by_identity(lives: Iterable[Life]) -> dict[str, list[Life]]:
    """The same, by what stays."""
    found: dict[str, list[Life]] = {}
    for life in lives:
        found.setdefault(life.identity, []).append(life)
    return found
