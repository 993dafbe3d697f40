"""A console whose readers may act, one reader, and commands that are told, not run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.console.http.served import Served
from zkcoord.console.acting.audit import AuditLog
from zkcoord.console.acting.desk import ActionDesk
from zkcoord.console.acting.readers import Readers
from zkcoord.console.acting.running import CommandResult
from zkcoord.console.http.acting import ActingAddresses
from zkcoord.zk.clock import boot_ms

TOKEN = "t" * 32
FORM = "application/x-www-form-urlencoded"
COOKIE = "zkcoord-console-test"
EVIL = "<script>alert(1)</script>"


class Told:
    """Commands that were to be run, and what they are said to print."""

    def __init__(self) -> None:
        self.ran: list[list[str]] = []
        self.result = CommandResult(0, f"TOPIC\n{EVIL}\n")
        self.error: Exception | None = None

    def run(self, arguments: Sequence[str], who: str) -> CommandResult:
        if self.error is not None:
            raise self.error
        self.ran.append([who, *arguments])
        return self.result


class LaterClock:
    """This machine's, and what a test adds."""

    more_ms = 0

    def __call__(self) -> int:
        return boot_ms() + self.more_ms


class Here:
    """A console whose readers may act, and one of them."""

    token = TOKEN

    def __init__(self, folder: Path, header: str = "") -> None:
        self.told, self.path, self.clock = Told(), folder / "tokens", LaterClock()
        self.path.touch(0o600)
        self.path.write_text(f"ann {TOKEN}\n")
        self.audit = AuditLog(folder / "audit")
        self.folder, self.header = folder, header
        self.cookie = ""
        self.served: Served

    def acting(self, pages: Any) -> ActingAddresses:
        runner: Any = self.told
        readers = Readers(
            "" if self.header else str(self.path),
            self.header,
            frozenset({"127.0.0.1"}) if self.header else frozenset(),
            boot_ms,
        )
        desk = ActionDesk(runner, self.audit, self.clock)
        return ActingAddresses(pages, desk, readers, self.audit, COOKIE)

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
        more = {"Cookie": self.cookie} if self.cookie else {}
        return self.served.ask(path, **more, **headers)

    def post(
        self, path: str, said: dict[str, str], **headers: str
    ) -> tuple[int, dict[str, str], str]:
        more = {"Cookie": self.cookie} if self.cookie else {}
        kind = {"Content_Type": FORM} | more | headers
        return self.served.ask(path, "POST", urlencode(said), **kind)

    def sign_in(self) -> None:
        status, headers, _ = self.post("/sign-in", {"token": TOKEN})
        assert status == 303
        self.cookie = headers["set-cookie"].split(";")[0]

    def proof(self) -> str:
        return field(self.get("/act?do=rebalance&name=billing")[2], "proof")

    def look(self, **said: str) -> str:
        """The page with what would be done."""
        page = {"do": "rebalance", "name": "billing", "proof": self.proof()} | said
        return self.post("/act", page)[2]

    def told_of(self) -> list[dict[str, Any]]:
        return [json.loads(one) for one in (self.folder / "audit").read_text().splitlines()]


def field(page: str, name: str) -> str:
    """A form's hidden field; "": there is none."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    return found[1] if found else ""
