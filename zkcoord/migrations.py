"""`zkcoord.migrations`: offsets from old consumers to coordinated groups, to Kafka, and back. The
package beside, `migrations`, has the same modules (`zkcoord.beside`).
"""

from __future__ import annotations

from zkcoord.beside import stand_in

stand_in("migrations")
