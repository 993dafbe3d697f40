"""Was a group served correctly? Rules over what its processes wrote down, apart from whatever
produced it and from whatever runs the rules.

`facts` is what can be known, `rules` judges the facts of ONE partition in order of time and knows
nothing else, `lines` turns the JSON lines of consumers, producers and scenarios into facts,
`engine` feeds many files to the rules in one pass. The rules need no particular engine: anything
that can group facts by partition and sort them by time can run them.
"""

from __future__ import annotations
