"""`warm_up` by the name that applications of the first release import it by; it stands in
`consumer.spark.warmup`.
"""

from __future__ import annotations

from consumer.spark.warmup import warm_up

__all__ = ["warm_up"]
