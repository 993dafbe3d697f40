"""Whom an ACL of ZooKeeper can name. What no server can know, or nobody can be, is refused where it
is said: ZooKeeper takes most of it, and then the node is nobody's. Schemes that are like none of
ZooKeeper's own may be of a provider that was plugged in.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import ipaddress
from collections.abc import Sequence

EVERYBODY = "anyone"
HASH_BYTES = 20
HASHES_BYTES = (HASH_BYTES, 32, 48, 64)
"""By what ZooKeeper can be told to hash (`digestAlg`); clients of zkcoord hash by the first."""
HASH_MADE_BY = "printf %s 'NAME:PASSWORD' | openssl dgst -binary -sha1 | base64"
SCHEMES = ("sasl", "x509", "digest", "ip", "world", "auth")


def unfit(scheme: str, who: str, hashes_bytes: Sequence[int] = (HASH_BYTES,)) -> str:
    """Why nobody is this, with what to write; "": somebody can be. The id is not quoted."""
    meant = difflib.get_close_matches(scheme, SCHEMES, n=1)
    if scheme not in SCHEMES and meant:
        return f"ZooKeeper has no such scheme: did you mean {meant[0]}?"
    if scheme == "digest" and not _is_hashed(who, hashes_bytes):
        return (
            "a digest is NAME:HASH, the hash base64 of 20 bytes and not the password: make it with"
            f" {HASH_MADE_BY}"
        )
    if scheme == "ip" and not _is_network(who):
        return "that is no address: write ip:ADDRESS or ip:ADDRESS/BITS"
    if scheme == "world" and who != EVERYBODY:
        return f"everybody is world:{EVERYBODY}"
    return ""


def _is_hashed(who: str, hashes_bytes: Sequence[int]) -> bool:
    name, _, hashed = who.partition(":")
    try:
        return bool(name) and len(base64.b64decode(hashed, validate=True)) in hashes_bytes
    except (binascii.Error, ValueError):
        return False


def _is_network(who: str) -> bool:
    address, slash, width = who.partition("/")
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not slash or (
        width.isascii() and width.isdecimal() and int(width[:4]) <= found.max_prefixlen
    )
