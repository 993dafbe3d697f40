"""A real ZooKeeper and a real Kafka broker for tests, the demo and whoever tries zkcoord: found,
fetched, verified, started, stopped.

Nothing is vendored. ZooKeeper comes from the jars that PySpark ships, Kafka from Maven Central
through the Ivy that PySpark ships too, and every jar that Ivy brings is compared with a lock file
(name and sha256) before it is run. `java` finds the virtual machine, `jars` the jars, `servers`
runs one server each, `stack` keeps a ZooKeeper and a broker under one folder, `cli` is `zkcoord
stack`. Linux only: process identity comes from /proc.
"""

from __future__ import annotations
