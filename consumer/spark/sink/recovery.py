"""Recovery without a claim: what a departed application has committed becomes visible also where
nobody reads its partitions any more, or where no application runs at all.

A `SinkWatch` looks every few seconds whether anything is committed and not yet visible, which is
one read; `python -m zkcoord.consumer.spark.sink` does it once, for readers and operators.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from consumer.spark.sink import publication
from consumer.spark.sink.effects import Keeper, perform
from consumer.spark.sink.errors import SinkError
from consumer.spark.sink.files import Files
from zkcoord.errors import UnavailableError
from zkcoord.zk.port import GetData, Node

log = logging.getLogger(__name__)

WATCH_EVERY_S = 10.0


def recover(place: publication.SinkPlace, keeper: Keeper, files: Files) -> int:
    """Finish and clean what departed members of the group have left; how many batches were
    committed and not finished before, those of living members included. Raises `DamagedSinkError`,
    `UnavailableError`.
    """
    waiting = committed(place, keeper)
    perform(publication.recover(place, 0), keeper, files)
    return waiting


def committed(place: publication.SinkPlace, keeper: Keeper) -> int:
    """How many batches are committed and not finished."""
    (answer,) = keeper.look((GetData(place.layout.publications(place.group)),))
    return answer.stat.num_children if isinstance(answer, Node) else 0


class SinkWatch(threading.Thread):
    """Looks after a sink's directory while its query runs."""

    def __init__(
        self,
        place: publication.SinkPlace,
        keeper: Keeper,
        files: Files,
        active: Callable[[], bool],
        every_s: float = WATCH_EVERY_S,
    ) -> None:
        super().__init__(name="sink-watch", daemon=True)
        self._place = place
        # Used by this thread alone, which closes it.
        self._keeper = keeper
        self._files = files
        # Whether the query runs; called on this thread.
        self._active = active
        self._every_s = every_s
        # Set by any thread.
        self._ending = threading.Event()

    def run(self) -> None:
        """Until `end`, or the query's."""
        while not self._ending.wait(self._every_s) and self._active():
            try:
                if committed(self._place, self._keeper):
                    recover(self._place, self._keeper, self._files)
            except (SinkError, UnavailableError) as error:
                log.warning(
                    "what departed applications of %s have committed could not be finished (tried"
                    " again in %d s): %s",
                    self._place.group,
                    self._every_s,
                    error,
                )
        self._keeper.close()

    def end(self) -> None:
        """Stop looking; returns at once."""
        self._ending.set()
