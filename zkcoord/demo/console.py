"""The console on a demo's run: it shows the group while the story is played, and stays open at its
end until a Ctrl-C.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from zkcoord.errors import ScenarioError

LINE = "zkcoord console: "
END_S = 10.0


@contextmanager
def console_on(
    zookeeper: str, brokers: str, journals: Sequence[Path], say: Callable[[str], None]
) -> Iterator[str]:
    """A console as a process of its own, which ends with this one; its address. Raises
    `ScenarioError` where it does not begin.
    """
    command = [sys.executable, "-m", "zkcoord.cli.main", "console", "--with-parent"]
    command += ["--zookeeper", zookeeper, "--bootstrap-servers", brokers]
    command += ["--listen", "127.0.0.1:0"]
    for journal in journals:
        command += ["--journal-dir", str(journal)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdin is not None and process.stderr is not None
    try:
        first = process.stderr.readline()
        if not first.startswith(f"{LINE}http"):
            raise ScenarioError(f"the console does not begin: {first.strip() or 'it said nothing'}")
        address = first.removeprefix(LINE).split()[0]
        say(f"The console shows the run at {address}")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield address
    finally:
        process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until_interrupted(address: str, say: Callable[[str], None]) -> None:
    """Let people look, until a Ctrl-C."""
    say(f"The group goes on, and the console is open at {address}: Ctrl-C ends both")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        say("Ending ...")
