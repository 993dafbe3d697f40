"""Everything that zkcoord has to do with brokers, on one broker of each kind: of Kafka 3.9 with
ZooKeeper underneath, of 3.9 without, and of Kafka 4. Nobody but the coordinator is told of the
broker.

    python -m tests.topics.matrix --help

`parts` are the rows of the table; `members`, `tools` and `gateways` what they do; `kinds` the
columns; `cell` plays one of them in a process of its own, `table` says how it went.
"""

from __future__ import annotations
