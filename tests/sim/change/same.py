"""A seed is the same run wherever it is run: what production draws by itself is drawn from the seed
here, and what it keeps in sets is in the order of numbers.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from collections.abc import Iterator
from types import SimpleNamespace

from consumer.gateway.client_led.group import LedAsk
from tests.sim.weakened import Patch
from zkcoord.znodes.classic import paths


@contextlib.contextmanager
def same_run(seed: int) -> Iterator[None]:
    """Names of requests are the seed's, and sets of requests are in the order of tickets."""
    drawn = random.Random(f"names {seed}")

    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=drawn.getrandbits(128))

    patches = (
        Patch(paths, "uuid", lambda original: SimpleNamespace(uuid4=uuid4)),
        Patch(LedAsk, "__hash__", lambda original: lambda ask: ask.ticket),
    )
    originals = [getattr(one.owner, one.name) for one in patches]
    for one, original in zip(patches, originals):
        setattr(one.owner, one.name, one.make(original))
    try:
        yield
    finally:
        for one, original in zip(patches, originals):
            setattr(one.owner, one.name, original)
