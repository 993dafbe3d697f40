"""`ast.parse` without a collection in the middle of it.

A collection may run finalizers, and with them another thread that parses, too (pytest does for each
traceback): CPython 3.11 then counts its depth wrongly and raises `SystemError: AST constructor
recursion depth mismatch`, in whichever test comes next, or in pytest itself.
"""

from __future__ import annotations

import ast
import gc
from typing import Any

_parse = ast.parse


def install() -> None:
    """From now on, in this process."""
    ast.parse = parse


def parse(*arguments: Any, **named: Any) -> Any:
    """As `ast.parse`."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _parse(*arguments, **named)
    finally:
        if collecting:
            gc.enable()
