"""Jars: what is run is exactly what the lock file names, and an interrupted or parallel fetch
leaves nothing half done. A fake Java stands for Ivy here; `make setup` on a fresh machine runs the
real one.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from zkcoord.errors import JarVerificationError, StackError
from zkcoord.stack import jars
from zkcoord.stack.java import Java

# What Ivy does, as far as it matters: finds the pattern after -retrieve and puts two jars there. It
# counts its runs in a file, and takes a moment so that two runs would overlap.
FAKE_IVY = """#!/bin/sh
echo run >> {count}
while [ "$1" != "-retrieve" ]; do shift; done
folder=$(dirname "$2")
sleep 0.2
printf one > "$folder/one-1.jar"
printf {second} > "$folder/two-2.jar"
exit {status}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZKCOORD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def artifact(tmp_path: Path) -> jars.Artifact:
    lock = tmp_path / "thing.lock"
    lock.write_text(
        "# what it brings\n"
        + "".join(
            f"{hashlib.sha256(body).hexdigest()}  {name}\n"
            for name, body in (("one-1.jar", b"one"), ("two-2.jar", b"two"))
        ),
        encoding="utf-8",
    )
    return jars.Artifact("org.example", "thing", "1", lock, megabytes=1, seconds=1)


def fake_java(folder: Path, second: str = "two", status: int = 0) -> Java:
    program = folder / "java"
    program.write_text(
        FAKE_IVY.format(count=folder / "count", second=second, status=status), encoding="utf-8"
    )
    program.chmod(0o755)
    return Java(program, 17, "PATH")


def runs(folder: Path) -> int:
    count = folder / "count"
    return len(count.read_text(encoding="utf-8").splitlines()) if count.exists() else 0


def test_fetched_once_then_from_the_cache(
    tmp_path: Path, cache: Path, artifact: jars.Artifact
) -> None:
    said: list[str] = []
    assert not jars.is_cached(artifact)
    first = jars.resolve(artifact, fake_java(tmp_path), said.append)
    assert [jar.name for jar in first] == ["one-1.jar", "two-2.jar"]
    assert len(said) == 1 and "1 MB" in said[0] and "1 s" in said[0]
    assert jars.is_cached(artifact)
    assert jars.resolve(artifact, fake_java(tmp_path), said.append) == first
    assert runs(tmp_path) == 1 and len(said) == 1


def test_two_at_once_fetch_once(tmp_path: Path, cache: Path, artifact: jars.Artifact) -> None:
    java = fake_java(tmp_path)
    threads = [
        threading.Thread(target=jars.resolve, args=(artifact, java, lambda _: None))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert runs(tmp_path) == 1
    assert len(jars.resolve(artifact, java, lambda _: None)) == 2


def test_a_changed_jar_is_refused_and_not_kept(
    tmp_path: Path, cache: Path, artifact: jars.Artifact
) -> None:
    with pytest.raises(JarVerificationError, match=r"two-2\.jar does not have the sha256"):
        jars.resolve(artifact, fake_java(tmp_path, second="evil"), lambda _: None)
    assert not jars.is_cached(artifact)
    assert [path.name for path in (cache / "jars").iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    ("change", "reason"), [("alter", "sha256"), ("remove", "was not fetched"), ("add", "is not in")]
)
def test_the_cache_is_verified_too(
    tmp_path: Path, cache: Path, artifact: jars.Artifact, change: str, reason: str
) -> None:
    one = jars.resolve(artifact, fake_java(tmp_path), lambda _: None)[0]
    if change == "alter":
        one.write_text("other", encoding="utf-8")
    elif change == "remove":
        one.unlink()
    else:
        (one.parent / "three-3.jar").touch()
    with pytest.raises(JarVerificationError, match=reason):
        jars.resolve(artifact, fake_java(tmp_path), lambda _: None)


def test_what_a_killed_run_left_is_cleared(
    tmp_path: Path, cache: Path, artifact: jars.Artifact
) -> None:
    abandoned = cache / "jars" / ".thing-1-abandoned"
    abandoned.mkdir(parents=True)
    (abandoned / "one-1.jar").touch()
    jars.resolve(artifact, fake_java(tmp_path), lambda _: None)
    assert not abandoned.exists()


def test_a_failing_fetch_is_one_sentence(
    tmp_path: Path, cache: Path, artifact: jars.Artifact
) -> None:
    with pytest.raises(
        StackError, match=r"Ivy could not fetch org\.example:thing:1: check the network"
    ) as caught:
        jars.resolve(artifact, fake_java(tmp_path, status=1), lambda _: None)
    assert "\n" not in str(caught.value)
    assert not jars.is_cached(artifact)


def test_a_torn_lock_file_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "torn.lock"
    lock.write_text("abc one.jar\n", encoding="utf-8")
    with pytest.raises(JarVerificationError, match="not `sha256  name`"):
        jars.read_lock(lock)


def test_kafkas_lock_file_names_a_broker() -> None:
    names = jars.read_lock(jars.KAFKA.lock)
    assert f"{jars.KAFKA.folder}.jar" in names
    # Packaged as bundles; a resolve of plain jars alone silently leaves them out.
    assert any(name.startswith("snappy-java-") for name in names) and any(
        name.startswith("metrics-core-2") for name in names
    )


def test_zookeeper_comes_with_pyspark() -> None:
    assert "zookeeper-jute-" in jars.zookeeper_classpath()
    assert "zookeeper" not in jars.logging_classpath().replace(str(jars.pyspark_jars()), "")


def test_the_proxy_of_the_environment_reaches_java(tmp_path: Path) -> None:
    java = Java(tmp_path / "java", 17, "PATH")
    options = jars.network_options(
        java,
        tmp_path,
        {"https_proxy": "http://proxy.example:3128", "no_proxy": "localhost,.example.org"},
    )
    assert options == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.example.org",
    ]
    assert jars.network_options(java, tmp_path, {}) == []


@pytest.mark.parametrize("proxy", ["http://[", "http://proxy.example:port", "http://h:99999"])
def test_a_proxy_that_is_none_is_said(proxy: str, tmp_path: Path) -> None:
    with pytest.raises(StackError, match="https_proxy"):
        jars.network_options(Java(tmp_path / "java", 17, "PATH"), tmp_path, {"HTTPS_PROXY": proxy})
