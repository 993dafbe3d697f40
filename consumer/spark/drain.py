"""What applications of the first release import by this name; it stands in
`consumer.spark.graceful_stop` and `consumer.spark.errors`.
"""

from __future__ import annotations

from consumer.spark.errors import UndrainedError
from consumer.spark.graceful_stop import drain_and_stop

__all__ = ["UndrainedError", "drain_and_stop"]
