"""The demo: a real group on a real broker, through joins, leaves, crashes and the coordinator's
death, with a verdict at the end.

`processes` starts and watches child processes (benchmarks use it too), `producer` is one of them,
`faulty` and `rogue` are the broken ones; `state` folds what they say into who owns what, `scenario`
is the story, `live` shows it, `picture` draws it, `summary` prints and stores it. The judgement is
`zkcoord.verdict`'s alone.
"""

from __future__ import annotations
