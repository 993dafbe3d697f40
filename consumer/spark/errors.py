"""What can end a streaming query of this source, beside what ends any member (`consumer.errors`)
and what stops a range from being read (`consumer.spark.decode.errors`).

    ConsumerError
    ├── MembershipError
    │   └── SessionLostError         the query lost its membership, and onSessionLoss is fail
    ├── UndecidedError               it cannot be told in time who owns what: no coordinator, or no
    │                                ZooKeeper                    (retriable)
    └── UndrainedError               a query was stopped before it had stored all that it wrote
    ConfigurationError
    └── WorkerPythonError            the Python of Spark's workers does not have zkcoord, or cannot
                                     be run
"""

from __future__ import annotations

from consumer.errors import ConsumerError, MembershipError
from zkcoord.errors import ConfigurationError


class SessionLostError(MembershipError):
    """The query is not the member that it was, and must not rejoin."""


class UndecidedError(ConsumerError):
    """Who owns the partitions of a batch, or of the group, was not settled in time."""

    retriable = True


class WorkerPythonError(ConfigurationError):
    """Spark's workers run a Python that will not do."""


class UndrainedError(ConsumerError):
    """A query was stopped before it had stored all that it wrote."""
