"""`zkcoord.consumer`: consumers whose group zkcoord coordinates, under a name that no module of an
application takes away. The package beside, `consumer`, has the same modules (`zkcoord.beside`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkcoord.beside import stand_in

if TYPE_CHECKING:
    from consumer import *  # noqa: F403  # the names that the package has

stand_in("consumer")
