"""Which process this is, without a system call: what may not be used in a forked child asks with
every record.

Python tells the child of every fork that it knows of (`os.fork`, `multiprocessing`, and servers
that embed it and fork as its documentation asks).
"""

from __future__ import annotations

import os


class CurrentProcess:
    """This process."""

    pid = os.getpid()


def _in_child() -> None:
    CurrentProcess.pid = os.getpid()


if hasattr(os, "register_at_fork"):  # not where there are no forks
    os.register_at_fork(after_in_child=_in_child)
