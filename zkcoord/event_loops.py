"""What other threads ask of an asyncio event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def run_there(events: asyncio.AbstractEventLoop, work: Callable[[], object]) -> bool:
    """Have an event loop run this, from any thread; False: it has ended, and nobody waits for what
    it would do.
    """
    try:
        events.call_soon_threadsafe(work)
    except RuntimeError:  # it is closed: looking at that before leaves a moment in which it ends
        if not events.is_closed():
            raise
        return False
    return True
