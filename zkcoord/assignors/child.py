"""The program in which assignors of others run: `python -u -m zkcoord.assignors.child PARENT
MEGABYTES`.

Standard input brings requests, standard output takes answers (`zkcoord.assignors.frames`); before
any code of others runs, both are moved to descriptors that no child of this process inherits,
standard input becomes empty, and whatever is printed goes to standard error. It ends when its input
ends, and the kernel kills it when its parent is gone: no endless loop outlives a coordinator. Its
address space is limited to MEGABYTES, it leaves no core file, and it is nicer than the coordinator
by `NICE`: a loop takes what others leave of a processor. An exception of an assignor is an answer;
after anything worse there is none, and the coordinator sees the process end.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

from zkcoord.assignors.frames import (
    HEADER,
    body_bytes,
    decode_request,
    encode_answer,
    encode_failure,
    frame,
)
from zkcoord.assignors.plugins import Assign, load

PR_SET_PDEATHSIG = 1
NICE = 5


def main(arguments: list[str]) -> int:
    """Serve until the input ends; 0, or 2 when started by hand."""
    if len(arguments) != 2 or not all(word.isdigit() for word in arguments):
        sys.stderr.write(
            "This program is started by a coordinator that finds assignors installed; see"
            " docs/assignors.md\n"
        )
        return 2
    _restrain(parent=int(arguments[0]), memory_mb=int(arguments[1]))
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    loaded: dict[str, Assign] = {}
    _write(answers, frame(b""))
    while (header := _read(requests, HEADER.size)) is not None and (
        body := _read(requests, body_bytes(header))
    ) is not None:
        _write(answers, frame(_answer(body, loaded)))
    return 0


def _restrain(parent: int, memory_mb: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it was gone before the kernel knew
        os._exit(1)
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_mb * 1024 * 1024,) * 2)


def _answer(body: bytes, loaded: dict[str, Assign]) -> bytes:
    assignor, given = decode_request(body)
    try:
        if assignor not in loaded:
            loaded[assignor] = load(assignor)
        result = loaded[assignor](given)
    # Whatever the assignor raises, SystemExit too, is sent as an answer and not raised.
    except BaseException as error:  # process main
        return encode_failure(f"it raised {type(error).__name__}: {_words(error)}")
    try:
        return encode_answer(result)
    except (TypeError, ValueError) as error:
        return encode_failure(_words(error))


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # process main: the exception's own code
        return ""


def _read(descriptor: int, count: int) -> bytes | None:
    """So many bytes; None at the end of the input."""
    data = bytearray()
    while len(data) < count:
        piece = os.read(descriptor, count - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
