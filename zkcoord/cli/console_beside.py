"""`zkcoord coordinator --console`: the console as a process of its own, beside the coordinator
whose journal it shows. However many pages are open, and whatever is asked of them, the thread that
decides has its interpreter for itself.

It is started again when it ends, and ends with the coordinator, however that dies: its standard
input is a pipe, of which nobody else has the other end. Its options are told by the environment,
where other users cannot read them.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Mapping

from zkcoord.config.option_spec import Use
from zkcoord.config.options import options_of
from zkcoord.config.sources import Settings
from zkcoord.words import NO, YES

log = logging.getLogger(__name__)

AGAIN_S = 5.0
CLOSE_WAIT_S = 5.0


def environment(settings: Settings, given: Mapping[str, str]) -> dict[str, str]:
    """That of the console: as that of the coordinator, and its options whatever gave them."""
    found = dict(given)
    for use in (Use.GROUPS, Use.JOURNAL):
        for option in options_of(use):
            value = settings.values.get(option.name)
            if isinstance(value, bool):
                found[option.variable] = YES[0] if value else NO[0]
            elif value is not None:
                found[option.variable] = str(value)
    return found


class ConsoleBeside:
    """A context in which a console runs."""

    def __init__(self, settings: Settings, given: Mapping[str, str]) -> None:
        names = settings.text("http_names")
        listen = settings.text("console_listen")
        self._command = [sys.executable, "-m", "zkcoord.cli.main", "console"]
        self._command += ["--listen", listen, "--with-parent"]
        self._command += ["--http-names", names] if names else []
        tokens = settings.text("console_actions_token_file")
        self._command += ["--actions-token-file", tokens] if tokens else []
        self._environment = environment(settings, given)
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="zkcoord-console", daemon=True)

    def __enter__(self) -> ConsoleBeside:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with self._lock:
            process = self._process
            if process is not None and process.stdin is not None:
                process.stdin.close()
        self._thread.join(CLOSE_WAIT_S)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                with self._lock:
                    if self._over.is_set():
                        return
                    # a signal of the terminal is for the coordinator, which ends it
                    self._process = process = subprocess.Popen(
                        self._command,
                        stdin=subprocess.PIPE,
                        env=self._environment,
                        start_new_session=True,
                    )
                status = process.wait()
            except OSError as error:
                log.error("the console cannot be started: %s", error.strerror or error)
                status = None
            if not self._over.is_set() and status is not None:
                log.warning(
                    "the console ended with status %s, and is started again after %d s",
                    status,
                    AGAIN_S,
                )
            self._over.wait(AGAIN_S)
