"""The command line: help, and bad input, which gets one sentence, a status that is not 0, no
traceback and no hang.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.admin.world import world
from tests.harness.command import ROOT, Running, environment, run
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from zkcoord import __version__
from zkcoord.cli.main import COMMANDS, CliParser, main
from zkcoord.znodes.paths import Layout

BAD_USE, CANNOT = 2, 1


def assert_one_sentence(done: subprocess.CompletedProcess[str], status: int, *parts: str) -> None:
    """One line on standard error (beside log lines) that holds `parts`."""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("t=")]
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    assert len(lines) == 1 and lines[0].startswith("zkcoord"), done.stderr
    for part in parts:
        assert part in lines[0], lines[0]


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["--version"],
        ["--help"],
        ["coordinator", "--help"],
        ["groups", "--help"],
        ["groups", "list", "--help"],
        ["groups", "describe", "--help"],
        ["groups", "delete", "--help"],
        ["groups", "rebalance", "--help"],
        ["offsets", "--help"],
        ["offsets", "show", "--help"],
        ["offsets", "reset", "--help"],
        ["offsets", "accept", "--help"],
        ["coordinator", "step-down", "--help"],
        ["journal", "--help"],
        ["guard", "--help"],
        ["demo", "--help"],
        ["check", "--help"],
        ["migrate", "--help"],
        ["migrate", "apply", "--help"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        out = capsys.readouterr().out
        assert out.strip()
        if arguments[0] == "--version":
            assert out == f"zkcoord {__version__}\n"
        elif arguments[0] in ("coordinator", "groups", "offsets", "journal", "demo"):
            assert "examples:" in out, arguments
    assert main([]) == BAD_USE


@pytest.mark.parametrize("asked", ["--version", "--help", "groups list --help"])
@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_help_that_cannot_be_printed_was_not_given(asked: str, to: str) -> None:
    line = f"{sys.executable} -m zkcoord.cli.main {asked} {to}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1 and "standard output does not take" in done.stderr


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    missing = [name for name in COMMANDS if f"zkcoord {name}" not in out]
    assert not missing, f"the docstring of zkcoord/cli/main.py lacks {missing}"


def test_a_suggestion_is_never_what_was_typed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every flag of every command, given to every other command. Where the command has it, x is no
    ZooKeeper, which is not waited for.
    """
    monkeypatch.setenv("ZKCOORD_CONNECT_TIMEOUT_MS", "1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    flags = {"--zookeeper", "--json", "--dry-run", "--execute", "--only", "--topic", "--state"}
    flags |= {"--group", "--fresh", "--live", "--rollback", "--members", "--layout", "--take"}
    for command in (
        ["migrate", "list"],
        ["migrate", "restore", "r"],
        ["migrate", "verify", "1"],
        ["groups", "list"],
        ["groups", "mode", "g"],
        ["offsets", "show", "g"],
        ["coordinator"],
        ["journal"],
        ["check"],
        ["acl", "audit"],
    ):
        for flag in sorted(flags):
            main([*command, f"{flag}=x"])
            said = capsys.readouterr().err
            assert f"write {flag}\n" not in said, said


def test_version_imports_neither_kazoo_nor_kafka(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom zkcoord.cli.main import main\ntry:\n    main(['--version'])\nexcept"
        " SystemExit:\n    pass\nassert not {'kazoo', 'kafka', 'prometheus_client', 'rich'} &"
        " set(sys.modules), sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["coordinater"], ("'coordinater'",)),
        (["coordinator", "--zookeper", "a"], ("'--zookeper'", "--zookeeper")),
        (["coordinator", "extra"], ("'extra' is not known",)),
        (["migrate", "list", "--zookeeper", "a"], ("'--zookeeper'", "leave it out")),
        (["migrate", "list", "--json"], ("'--json' is not known to zkcoord migrate list",)),
        (["migrate", "rollback", "1", "--dry-run"], ("'--dry-run'", "leave it out")),
        (["migrate", "apply", "1", "--zookeper", "a"], ("write --zookeeper",)),
        (["groups", "list", "--members"], ("'--members'", "zkcoord groups list")),
        (["coordinator", "step-down", "extra"], ("'extra' is not known",)),
        (["coordinator", "step-down", "--no-http"], ("'--no-http' is not known",)),
        (["coordinator", "step-down"], ("no ZooKeeper is named",)),
        (
            ["coordinator", "step-down", "--zookeeper", "a", "--timeout-ms", "0"],
            ("--timeout-ms is 0",),
        ),
        (["coordinator"], ("no ZooKeeper is named", "--zookeeper HOST:PORT")),
        (["coordinator", "--zookeeper", "a:b"], ("'b'", "1 to 65535")),
        (["coordinator", "--zookeeper"], ("--zookeeper", "expected one argument")),
        (["coordinator", "--zookeeper", "a", "--assignor", "stikcy"], ("'stikcy'", "sticky")),
        (["coordinator", "--zookeeper", "a", "--layout", "old"], ("'old'", "draft or isolated")),
        (["coordinator", "--zookeeper", "a", "--debounce-ms", "x"], ("--debounce-ms",)),
        (
            ["coordinator", "--zookeeper", "a", "--no-http", "--http-port", "1"],
            ("--http-port", "--no-http"),
        ),
        (["coordinator", "--zookeeper", "a", "--config", "/none.toml"], ("/none.toml",)),
        (
            ["coordinator", "--zookeeper", "a", "--journal-dir", "/proc/zkcoord"],
            ("/proc/zkcoord", "--no-journal"),
        ),
        (
            ["coordinator", "--zookeeper", "a", "--http-host", "192.0.2.1"],
            ("192.0.2.1", "--no-http"),
        ),
        (["groups"], ("list|describe",)),
        (["groups", "delete", "--zookeeper", "a"], ("GROUP",)),
        (["groups", "delete", "a/b", "--zookeeper", "a"], ("'a/b'",)),
        (["groups", "delete", "g", "--execute", "--dry-run", "--zookeeper", "a"], ("--dry-run",)),
        (["groups", "rebalance", "--zookeeper", "a"], ("GROUP",)),
        (
            ["groups", "rebalance", "g", "--timeout-ms", "-1", "--zookeeper", "a"],
            ("--timeout-ms is -1",),
        ),
        (["offsets"], ("show|reset|delete|accept",)),
        (["offsets", "show", "g"], ("no ZooKeeper is named",)),
        (["groups", "list"], ("no ZooKeeper is named",)),
        (["groups", "list", "--jsn"], ("'--jsn'", "--json")),
        (["groups", "describe"], ("GROUP",)),
        (["groups", "describe", "a/b", "--zookeeper", "a"], ("'a/b'", "a / parts")),
        (["groups", "describe", "ids", "--zookeeper", "a"], ("'ids'",)),
        (
            ["groups", "describe", "g", "--members", "--state", "--zookeeper", "a"],
            ("not allowed with",),
        ),
        (["journal", "-n", "x"], ("-n",)),
        (["groups", "describe", "-dash"], ("GROUP", "where '-dash' is a name", "after --")),
        (["groups", "delete", "a", "-dash"], ("'-dash' is not known", "after --")),
        (["offsets", "show", "-dash"], ("'-dash' is not known", "after --")),
        (["offsets", "show", "--group", "-dash"], ("written --group=VALUE",)),
        (["offsets", "delete", "g", "--topic", "-t"], ("written --topic=VALUE",)),
    ],
)
def test_bad_use_is_one_sentence_and_status_2(
    arguments: list[str],
    parts: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(arguments) == BAD_USE
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("t=")]
    assert out == "" and len(lines) == 1 and lines[0].startswith("zkcoord"), err
    for part in parts:
        assert part in lines[0], lines[0]


@pytest.mark.parametrize(
    "command",
    [
        ["coordinator"],
        ["groups", "list"],
        ["groups", "describe", "g"],
        ["groups", "delete", "g"],
        ["groups", "rebalance", "g"],
        ["offsets", "show", "g"],
        ["coordinator", "step-down"],
    ],
)
def test_an_unreachable_zookeeper_is_one_sentence(command: list[str], tmp_path: Path) -> None:
    done = run(tmp_path, *command, "--zookeeper", "127.0.0.1:1", "--connect-timeout-ms", "1000")
    assert_one_sentence(done, CANNOT, "no ZooKeeper server answers at 127.0.0.1:1", "--zookeeper")


@pytest.mark.parametrize("command", [["coordinator"], ["groups", "list"]])
def test_a_zookeeper_that_accepts_and_says_nothing_is_one_sentence(
    command: list[str], tmp_path: Path, zk_proxy: Proxy
) -> None:
    zk_proxy.black_hole()
    done = run(tmp_path, *command, "--zookeeper", zk_proxy.address, "--connect-timeout-ms", "1000")
    assert_one_sentence(done, CANNOT, f"{zk_proxy.address} has not answered yet")


@pytest.mark.parametrize(("given", "meant"), [(["gruops"], "groups"), (["groups", "lst"], "list")])
def test_a_misspelt_command_gets_the_nearest(given: list[str], meant: str, tmp_path: Path) -> None:
    done = run(tmp_path, *given)
    assert_one_sentence(done, BAD_USE, f"'{given[-1]}' is not known: write {meant}")


@pytest.mark.parametrize("command", [["coordinator"], ["groups", "list"]])
def test_a_wrong_chroot_is_one_sentence(command: list[str], tmp_path: Path, zk_hosts: str) -> None:
    done = run(tmp_path, *command, "--zookeeper", zk_hosts + "/none")
    assert_one_sentence(done, CANNOT, "/none", "chroot")


def test_a_broker_that_is_not_there_is_one_sentence(tmp_path: Path, zk_hosts: str) -> None:
    done = run(tmp_path, "coordinator", "--zookeeper", zk_hosts, "--broker-id", "42")
    assert_one_sentence(done, CANNOT, "broker 42 is not there", "/brokers/ids/42", "--broker-id")


def test_a_contradictory_layout_is_waited_for_and_said_once(tmp_path: Path, zk_hosts: str) -> None:
    """In the log, under /ready and /groups and in the metrics; it leads once the other has gone."""
    options = ("--zookeeper", zk_hosts, "--layout", "draft", "--http-port", "0")
    with world(zk_hosts, Layout.ISOLATED) as found:
        found.leader()
        with Running(tmp_path / "c", *options) as process:
            process.logs("cannot lead, and waits")
            status, said = process.get("/ready")
            assert status == 503 and "--layout isolated" in said and "waiting: " in said
            assert "--layout isolated" in json.loads(process.get("/groups")[1])["waiting"]
            assert "zkcoord_waiting 1.0" in process.get("/metrics")[1]
            found.client.delete(Layout.ISOLATED.leader)
            process.ready("leading")
            assert process.log.count("cannot lead, and waits") == 1
            wait_until(
                lambda: "zkcoord_waiting 0.0" in process.get("/metrics")[1], 60, "the metric"
            )


def test_an_unknown_variable_that_looks_like_an_option_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "groups", "list", ZKCOORD_ZOOKEPER="a")
    assert_one_sentence(done, BAD_USE, "ZKCOORD_ZOOKEEPER")


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, zk_hosts: str) -> None:
    with world(zk_hosts) as found:
        found.group("g")
        found.member("g", "g_a", {"orders": 1})
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "zkcoord.cli.main",
                "groups",
                "describe",
                "g",
                "--state",
                "--watch",
                "--interval-ms",
                "100",
                "--zookeeper",
                zk_hosts,
            ],
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
        )
        assert process.stdout is not None and process.stderr is not None
        assert b"GROUP" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(40) == 0
        assert process.stderr.read() == b""
        process.stderr.close()


def test_a_name_that_is_a_double_dash_is_a_name() -> None:
    """Behind the one that ends the options; argparse gives an empty list for it."""
    parser = CliParser()
    commands = parser.add_subparsers(dest="command").add_parser("evict")
    for name in ("group", "member"):
        commands.add_argument(name)
    for group, member in (("g", "--"), ("--", "m"), ("--", "--")):
        found = parser.parse_args(["evict", "--", group, member])
        assert (found.group, found.member) == (group, member)
