"""An ACL as people write it: SCHEME:ID:PERMISSIONS with commas between, or "open"."""

from __future__ import annotations

from zkcoord.zk.acl.principals import HASHES_BYTES, unfit
from zkcoord.zk.acl.table import masked
from zkcoord.zk.port import OPEN_ACL, PERMISSIONS, AclEntry

OPEN = "open"


def acl_entries(text: str) -> tuple[AclEntry, ...]:
    """The entries. An id may contain colons (sha-1 digests do), so scheme and permissions are taken
    from the ends. Raises `ValueError` with the part that is none, as it may be shown, and why
    nobody is it where that is known.
    """
    if text.strip() == OPEN:
        return OPEN_ACL
    entries = []
    for part in text.split(","):
        scheme, colon, rest = part.strip().partition(":")
        who, last, letters = rest.rpartition(":")
        if (
            not colon
            or not last
            or not scheme
            or not letters
            or any(letter not in PERMISSIONS for letter in letters)
        ):
            raise ValueError(masked(part))
        why = unfit(scheme, who, HASHES_BYTES) if scheme != "auth" else ""
        if why:
            raise ValueError(f"{masked(part)} ({why})")
        entries.append(AclEntry(sum({PERMISSIONS[letter] for letter in letters}), scheme, who))
    return tuple(entries)
