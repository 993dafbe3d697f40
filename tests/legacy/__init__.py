"""The real old consumers (0.8.2.2, 0.11.0.3, 1.1.1), their tools and their brokers, started by
tests: `jars` where they come from, `consumers` how they are started and told what to do, `looking`
what ZooKeeper shows of a group, `tools` the command lines of 1.1.1, `matrix` the comparison of our
maths with theirs, `broker_matrix` what we say to brokers of several releases (`broker_checks`: what
that is).
"""

from __future__ import annotations
