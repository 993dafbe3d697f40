"""Commits of members of client-led groups: stored on the gateway's pool, each with a check of the
state by which its member was judged; those of one member one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition

Codes = dict[TopicPartition, WireCode]
Stored = Callable[[Codes | None], None]


@dataclass(frozen=True, slots=True)
class MembersCommit:
    """What is stored: next offsets, and what stands beside each. `version`: of the state by which
    its member may; where that has changed nothing more is stored.
    """

    group: str
    version: int
    offsets: Mapping[TopicPartition, tuple[int, str]] = field(default_factory=dict)


class CommitsOfMembers(Protocol):
    """Stores them, on a thread that may block."""

    def commit_of_member(self, commit: MembersCommit, codes: Codes) -> Iterator[bool]:
        """In parts, between which others have their turn; True: its member may do so no more."""


class OnPool(Protocol):
    """Runs what blocks."""

    def __call__(self, work: Callable[[], Any], /) -> Future[Any]:
        """See above."""


class Storing:
    """See the module. `post` brings the end back to the members' loop."""

    def __init__(
        self,
        store: CommitsOfMembers,
        on_pool: OnPool,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._store = store
        self._on_pool = on_pool
        self._post = post

    def store(self, commit: MembersCommit, done: Stored) -> None:
        """Store it; `done` hears the code of each partition; None: the state has changed, and what
        is stored is to be stored again by whoever may.
        """

        def work() -> None:
            codes: Codes = {}
            fenced = any(self._store.commit_of_member(commit, codes))
            self._post(lambda: done(None if fenced else codes))

        self._on_pool(work)
