"""Words for yes and no, as a person writes them into a file, a variable or an option: one list for
every option that is on or off, whoever reads it.
"""

from __future__ import annotations

YES = ("on", "true", "yes", "1")
NO = ("off", "false", "no", "0")


def yes_or_no(text: str) -> bool:
    """What the text says, in any case. Raises `ValueError` for another."""
    word = text.strip().lower()
    if word not in YES and word not in NO:
        raise ValueError(f"{text!r} says neither yes nor no")
    return word in YES


def is_text(given: str) -> bool:
    """Whether it can be written in UTF-8 and read by C libraries, which a NUL ends and half of a
    surrogate pair may crash.
    """
    return "\0" not in given and is_utf8(given)


def is_utf8(given: str) -> bool:
    """Whether it can be written in UTF-8, as half of a surrogate pair cannot."""
    return given.encode("utf-8", "replace").decode() == given
