"""What readers who may act need, as a console's options say."""

from __future__ import annotations

import os
from contextlib import ExitStack

from zkcoord.cli.console_beside import environment
from zkcoord.config.sources import Settings
from zkcoord.console.acting.audit import AuditLog
from zkcoord.console.acting.desk import ActionDesk
from zkcoord.console.acting.readers import Readers
from zkcoord.console.acting.running import CommandRunner
from zkcoord.console.flags import ActingSettings
from zkcoord.console.http.acting import ActingAddresses
from zkcoord.console.pages import Pages
from zkcoord.zk.clock import boot_ms


def acting_at(
    said: ActingSettings, settings: Settings, pages: Pages, port: int, stack: ExitStack
) -> ActingAddresses:
    """Their addresses; `stack` closes what is open. Raises `ConfigurationError` for a token file
    that cannot be used, `UnavailableError` for an audit log that cannot be written.
    """
    readers = Readers(said.token_file, said.header, said.proxies, boot_ms)
    audit = AuditLog(said.audit_log)
    stack.callback(audit.close)
    runner = CommandRunner(environment(settings, os.environ))
    stack.callback(runner.close)
    # cookies are kept by host: a console on another port has its own
    return ActingAddresses(
        pages, ActionDesk(runner, audit), readers, audit, f"zkcoord-console-{port}"
    )
