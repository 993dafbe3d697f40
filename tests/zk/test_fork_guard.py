"""Whoever asks which process this is gets the truth in a child, too."""

from __future__ import annotations

import multiprocessing
import os

from zkcoord.zk.fork_guard import CurrentProcess


def _both() -> tuple[int, int]:
    return CurrentProcess.pid, os.getpid()


def test_a_forked_child_is_another_process() -> None:
    with multiprocessing.get_context("fork").Pool(1) as children:
        told, real = children.apply(_both)
    assert told == real != CurrentProcess.pid == os.getpid()
