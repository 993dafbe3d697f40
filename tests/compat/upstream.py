"""`python -m tests.compat.upstream`: kafka-python's own tests of its consumer, on both consumers.

The tests are taken from the source package of the installed release when this runs (pip fetches
it); nothing of it is kept here. Its fixtures want a broker: they are given ours. Each test runs
with kafka-python's consumer and with ours, and what differs must stand in `DIFFERENCES`, with a row
of the table of differences in docs/consumer.md. An id that differs and is not there fails, and so
does one that is there and does not differ any more.

Ends with 0 when all is as it is written down, 1 when it is not, 2 when the source package cannot be
had (it says what is missing).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import kafka

from tests.compat.upstream_side import ZOOKEEPER
from tests.harness import kafka as harness
from tests.harness.zookeeper import start_server
from tests.kafka.groups import coordinator
from zkcoord.stack.jars import KAFKA
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "build" / "reports"
FETCH_S, RUN_S = 300, 1_500

PRIVATE = "what begins with an underscore"
IN_KAFKA = "the group in Kafka's tools"
GENERATION = "the generation in `group_metadata`"
# Id of a test -> the row of the table of differences that explains why it fails with ours.
DIFFERENCES: dict[str, str] = {
    "test_consumer_integration.py::test_consumer": PRIVATE,
    "test_consumer_integration.py::test_group": GENERATION,
    "test_consumer_integration.py::test_heartbeat_thread": PRIVATE,
    "test_admin_integration.py::test_describe_group_exists": IN_KAFKA,
    "test_admin_integration.py::test_delete_groups": IN_KAFKA,
    "test_admin_integration.py::test_delete_groups_with_errors": IN_KAFKA,
}

# Of kafka-python's tree and not in its source package: what runs servers, of which these tests need
# the one that is there already.
SERVICE = '''"""A server that is there already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def stop(self):
        pass

    dump_logs = stop


SpawnedService = ExternalService
'''

Outcomes = dict[str, str]


class NotThereError(Exception):
    """The source package cannot be had; the message says what is missing."""


def fetch(folder: Path) -> Path:
    """The unpacked tests of the installed release. Raises `NotThereError`."""
    wanted = f"kafka-python=={kafka.__version__}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", "kafka-python", "--dest", str(folder), wanted]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S)
    archives = sorted(folder.glob("kafka*python*.tar.gz"))
    if ended.returncode or not archives:
        said = (ended.stderr.strip() or "no archive").splitlines()[-1]
        raise NotThereError(
            f"pip does not give the source package of {wanted} ({said}): its tests are in it; run"
            " this where pip reaches an index"
        )
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    found = next(folder.glob("*/test/integration"), None)
    if found is None:
        raise NotThereError(f"the source package of {wanted} has no test/integration")
    tests = found.parent
    (tests / "__init__.py").touch()
    if not (tests / "service.py").exists():
        (tests / "service.py").write_text(SERVICE)
    # the installed package is what is tested
    (tests.parent / "kafka").rename(tests.parent / "kafka-of-the-source")
    return tests.parent


def start_broker(home: Path, zookeeper: str, java: Java) -> KafkaBroker:
    """A broker as these tests expect one: it makes topics that are written to."""
    config = {**harness.KEPT_FOR_EVER, "auto.create.topics.enable": "true"}
    broker = KafkaBroker(home, free_port(), zookeeper, java, owned=True, config=config)
    broker.start()
    return broker


def run(folder: Path, broker: str, zookeeper: str | None, some: Sequence[str]) -> Outcomes:
    """Outcome by id of each of their tests that uses a consumer: with ours, if there is a
    `zookeeper`. `some`: more arguments for pytest.
    """
    report = folder / f"{'theirs' if zookeeper is None else 'ours'}.xml"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))),
        "KAFKA_URI": f"kafka://{broker}",
        "KAFKA_VERSION": KAFKA.version,
        "KAFKA_ROOT": str(folder),
        **({} if zookeeper is None else {ZOOKEEPER: zookeeper}),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.compat.upstream_side"]
    command += ["-p", "no:cacheprovider", "-o", "addopts=", f"--junitxml={report}"]
    command += [f"--rootdir={folder}", "test/integration", *some]
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / f"upstream-{report.stem}.log").open("w") as log:
        subprocess.run(
            [*command, "-v"], cwd=folder, env=environment, timeout=RUN_S, stdout=log, stderr=log
        )
    return dict(outcomes(ElementTree.parse(report).getroot()))


def outcomes(report: Any) -> Iterator[tuple[str, str]]:
    """(id, outcome) of what pytest has written: passed, skipped, failed or error."""
    for case in report.iter("testcase"):
        bad = next((c.tag for c in case if c.tag in ("failure", "error", "skipped")), "passed")
        file = f"{case.get('classname', '').rpartition('.')[2]}.py"
        yield f"{file}::{case.get('name')}", "failed" if bad == "failure" else bad


def judge(theirs: Outcomes, ours: Outcomes, known: Mapping[str, str]) -> list[str]:
    """What is not as it is written down, as sentences. Where kafka-python's own consumer fails
    nothing is said of ours.
    """
    found = []
    for test in sorted({*theirs, *ours, *known}):
        if test not in theirs:
            found.append(f"{test} is written down as a difference, and there is no such test")
            continue
        differs = theirs[test] == "passed" and ours.get(test) != "passed"
        if differs and test not in known:
            found.append(
                f"{test} passes with kafka-python's consumer and not with ours"
                f" ({ours.get(test, 'it was not run')}), and docs/consumer.md does not say why"
            )
        elif not differs and test in known and theirs[test] == "passed":
            found.append(f"{test} passes with ours by now: take it out of the differences")
    return found


def main(some: Sequence[str] = ()) -> int:
    """Fetch, run twice, print. `some`: arguments for pytest, to run less (`-k paused`)."""
    with tempfile.TemporaryDirectory(prefix="zkcoord-upstream-") as name:
        home = Path(name)
        try:
            tests = fetch(home)
        except (NotThereError, subprocess.TimeoutExpired) as e:
            print(f"not run: {e}", file=sys.stderr)
            return 2
        java = find_java()
        server = start_server(home / "zookeeper", java)
        try:
            zookeeper = server.address + harness.CHROOT
            broker = start_broker(home / "kafka", zookeeper, java)
            try:
                theirs = run(tests, broker.address, None, some)
                with coordinator(zookeeper):
                    ours = run(tests, broker.address, zookeeper, some)
            finally:
                broker.kill()
        finally:
            server.kill()
    width = max(map(len, theirs), default=0)
    print(f"{'':{width}}  kafka-python  zkcoord  differs by")
    for test, outcome in theirs.items():
        why = DIFFERENCES.get(test, "")
        print(f"{test:{width}}  {outcome:>12}  {ours.get(test, '-'):>7}  {why}".rstrip())
    known = {test: why for test, why in DIFFERENCES.items() if not some or test in theirs}
    findings = judge(theirs, ours, known)
    good = sum(ours.get(test) == "passed" for test in theirs)
    print(
        f"\n{len(theirs)} tests of kafka-python {kafka.__version__}: {good} pass with ours,"
        f" {list(theirs.values()).count('passed')} with its own; {len(findings)} unexplained."
    )
    for sentence in findings:
        print(sentence, file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
