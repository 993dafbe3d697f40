"""Java for servers that live for a minute or two, many at once: without the second compiler, which
takes more processor time than it saves them (a third less for a start). Benchmarks run their
servers with both.
"""

from __future__ import annotations

from dataclasses import replace

from zkcoord.stack.java import Java, find_java


def quick_java() -> Java:
    """The Java of this machine. Raises as `find_java`."""
    return replace(find_java(), flags=("-XX:TieredStopAtLevel=1",))
