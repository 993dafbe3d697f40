"""How large a text is where it is written: in JSON of ASCII characters, where a quote takes two
bytes, a letter beyond ASCII six, and one beyond the basic plane twelve.
"""

from __future__ import annotations

ESCAPED_BRIEFLY = frozenset('"\\\b\f\n\r\t')


def json_bytes(text: str) -> int:
    """Its length in bytes, quotes included."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return len(text) + 2
    return 2 + sum(map(_char_bytes, text))


def _char_bytes(c: str) -> int:
    if c in ESCAPED_BRIEFLY:
        return 2
    if " " <= c <= "~":
        return 1
    return 6 if c <= "\uffff" else 12
