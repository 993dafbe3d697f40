"""`drain_and_stop` by the name that applications of the first release import it by; it stands in
`consumer.spark.graceful_stop`.
"""

from __future__ import annotations

from consumer.spark.graceful_stop import drain_and_stop

__all__ = ["drain_and_stop"]
