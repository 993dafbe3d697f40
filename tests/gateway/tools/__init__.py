"""Kafka's own tools and admin clients, about a coordinated group and about one of Kafka's own
coordinator, in the same state: where they say something else, field by field. `commands` says what
is asked, `sides` asks it, `fields` reads what is said, `table` is the table of docs/gateway.md.
"""

from __future__ import annotations
