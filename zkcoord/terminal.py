"""Where text leaves for people: everything that a command prints goes through `out` and `err`.

* Names, texts of nodes, recordings and errors of servers were written by others, and a terminal
  obeys what it is sent. So control characters (C0, C1), characters that only change how others look
  (bidirectional marks, zero-width ones) and lone surrogates become escapes that can be read, as
  `\\x1b` and `\\u202e`; line ends and tabs stay. What the stream's encoding lacks becomes one, too.
* A standard output that is closed, full or read by nobody is no traceback: what was asked for and
  cannot be printed is an `OutputLostError`, and what has been DONE already is done: the command
  says so on standard error, and its exit status is that of what it did.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TextIO

from zkcoord.errors import OutputLostError

SHOWN_CHARS_MAX = 80
CLEAR_SCREEN = "\x1b[H\x1b[2J"
OVER = "\r\x1b[K"
"""To the beginning of a terminal's line, which is emptied."""


def printable(text: str) -> str:
    """A value for people, on one line: whatever is no printable character is escaped."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def lines(text: str) -> str:
    """The same for text of several lines: line ends and tabs stay."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c in "\n\t" else _escaped(c) for c in text)


def shown(text: str) -> str:
    """Foreign text for a message: ASCII, in quotes, at most `SHOWN_CHARS_MAX` of its characters."""
    cut = text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "..."
    return ascii(cut)


def out(text: str, *, done: str = "", clear: bool = False) -> bool:
    """Print to standard output, at once. `clear`: on an empty screen.

    `done` says what the command has changed already: where that cannot be printed, standard error
    says it, and the answer is False. Without it raises `OutputLostError`, or `BrokenPipeError`
    where the reader has gone, as `head` does.
    """
    try:
        _write(sys.stdout, f"{CLEAR_SCREEN if clear else ''}{_encodable(sys.stdout, lines(text))}")
    except (OSError, ValueError) as error:
        _abandon(sys.stdout)
        why = getattr(error, "strerror", None) or str(error)
        if done:
            err(f"{done}; standard output does not take the rest ({why})\n")
            return False
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputLostError(
            f"standard output does not take what is to be printed ({why}): give it somewhere with"
            " room"
        ) from error
    return True


def err(text: str, *, over: bool = False) -> None:
    """Print to standard error, at once; where nobody can be told, nothing happens. `over`: in the
    place of the line that was begun there.
    """
    try:
        _write(sys.stderr, f"{OVER if over else ''}{_encodable(sys.stderr, lines(text))}")
    except (OSError, ValueError):
        _abandon(sys.stderr)


def _escaped(character: str) -> str:
    return (
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
    )


def _encodable(stream: TextIO | None, text: str) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if text.isascii():
        return text
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _write(stream: TextIO | None, text: str) -> None:
    """One write, because threads may be writing lines as well."""
    if stream is None:  # it was closed when the process began
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    stream.write(text)
    stream.flush()


def _abandon(stream: TextIO | None) -> None:
    """What could not be written is still in the stream's buffer, and the interpreter's end must not
    fail at it.
    """
    try:
        if stream is not None:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
            stream.flush()
    except (OSError, ValueError):
        return
