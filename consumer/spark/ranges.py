"""`PlannedRange` by the name that applications of the first release import it by; it stands in
`consumer.spark.plan`.
"""

from __future__ import annotations

from consumer.spark.plan import PlannedRange

__all__ = ["PlannedRange"]
