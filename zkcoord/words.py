"""Words for yes and no, as a person writes them into a file, a variable or an option: one list for
every option that is on or off, whoever reads it. And how many of something there are, as a person
says it.
"""

from __future__ import annotations

YES = ("on", "true", "yes", "1")
NO = ("off", "false", "no", "0")


PLURALS = {"was": "were", "is": "are", "has": "have"}


def counted(count: int, noun: str, verb: str = "") -> str:
    """`1 offset was`, `2 offsets were`: with the verb that comes next, if any, as it is of one."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
        verb = PLURALS.get(verb, verb)
    return f"{count} {noun} {verb}".rstrip()


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
