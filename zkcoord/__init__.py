"""A coordinator for Kafka consumer groups over ZooKeeper. Importing the package imports nothing
else: each part is imported by who needs it.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
