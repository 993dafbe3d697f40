"""The audit of a group in PySpark: what its processes wrote down, and the records that came out,
against the rules of `zkcoord.verdict`.

    python -m zkcoord.consumer.spark.audit --journal DIR [--records DIR]

The rules are not written again here. Spark does what it is good at, the rules do the rest: `facts`
reads lines into rows by the parsers of `zkcoord.verdict.lines`, `ordering` brings the rows of each
partition into the order in which the rules want them, `output` reduces millions of records to
ranges, `folding` feeds all of it, sorted, to one `PartitionJudge` per partition. `run` puts them
together, `command` is the command line, `report` the answer.
"""

from __future__ import annotations
