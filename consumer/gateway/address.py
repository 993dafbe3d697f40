"""Where somebody listens."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z)({LABEL}\.)*(?![0-9]+\Z){LABEL}", re.ASCII)


@dataclass(frozen=True)
class Address:
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_host(text: str) -> bool:
    """Whether it is a host's name, or an IP address without brackets."""
    return is_ip(text) or HOST_NAME.fullmatch(text.lower().removesuffix(".")) is not None


def is_ip(text: str) -> bool:
    """Whether it is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
