"""The lease of a member as one immutable value: the only thing of the core, besides the snapshot,
that another thread may read.
"""

from __future__ import annotations

from zkcoord.core.value_type import value


@value
class Lease:
    """Until when records may be handed out, and by whom: both fields belong together, so they are
    made, assigned and read together.
    """

    until_ms: int
    """The end of the lease, ms of the process's own clock (`boot_ms`); 0: no lease."""

    lost_epoch: int
    """The assignment epoch of the latest `Lost`: whoever has not heard of it has no lease."""

    def until(self, assignment_epoch: int) -> int:
        """The end of the lease (ms; 0: none) for whoever has heard everything up to
        `assignment_epoch`.
        """
        return self.until_ms if assignment_epoch >= self.lost_epoch else 0


NO_LEASE = Lease(0, 0)
