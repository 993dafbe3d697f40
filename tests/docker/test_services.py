"""The units, the compose file, and what docker-test says where there is no engine."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from consumer.gateway.cli import gateway_options
from consumer.gateway.operation.ending import END_S
from tests.docker import __main__ as docker_test
from zkcoord.cli.main import COMMANDS
from zkcoord.config.option_spec import Use
from zkcoord.config.settings import coordinator_settings, zk_options
from zkcoord.config.sources import add_flags, resolve
from zkcoord.coordinator.service import STOP_DEADLINE_MS
from zkcoord.core.assignment import ASSIGNORS

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "docker" / "systemd"
UNITS = ("coordinator", "gateway", "console", "guardian")
OFFLINE_SINCE = 250
EXPOSURE_MAX = 15
"""Tenths, as `systemd-analyze security` counts: from 0 to 100."""
USES = {"gateway": Use.GATEWAY, "coordinator": Use.COORDINATOR}
ENDS_WITHIN_S = {"gateway": END_S, "coordinator": STOP_DEADLINE_MS / 1000}
COMPOSE = (ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8")
# What every service of zkcoord's has.
HARDENING = {
    "DynamicUser": "yes",
    "User": "zkcoord",
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectControlGroups": "yes",
    "ProtectProc": "invisible",
    "MemoryDenyWriteExecute": "yes",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "SystemCallArchitectures": "native",
    "SystemCallFilter": "@system-service ~@privileged",
    "UMask": "0077",
    "LimitCORE": "0",
}


def unit(name: str) -> dict[str, str]:
    """The settings of a service's section, each of which is there once, but for the two lists of
    system calls.
    """
    text = (SYSTEMD / f"zkcoord-{name}.service").read_text(encoding="utf-8")
    section = text.partition("\n[Service]\n")[2].partition("\n[")[0]
    lines = [line for line in section.splitlines() if line and not line.startswith("#")]
    pairs = [line.split("=", 1) for line in lines]
    filters = [value for key, value in pairs if key == "SystemCallFilter"]
    assert len({key for key, _ in pairs}) == len(pairs) - (len(filters) - 1)
    return {key: value for key, value in pairs} | {"SystemCallFilter": " ".join(filters)}


def started(name: str, environment: Mapping[str, str]) -> argparse.Namespace:
    """What the command of a unit is told, by its parser."""
    line = re.sub(r"\$(\w+)", lambda found: environment.get(found[1], ""), unit(name)["ExecStart"])
    program, command, *flags = shlex.split(line)
    assert Path(program).name == "zkcoord"
    parser = argparse.ArgumentParser()
    importlib.import_module(COMMANDS[command].module).add_parser(parser.add_subparsers())
    return parser.parse_args([command, *flags])


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_restarts_stops_in_order_and_may_do_little(name: str) -> None:
    found = unit(name)
    assert found["Restart"] == "always"
    assert (found["KillSignal"], found["KillMode"]) == ("SIGTERM", "mixed")
    assert float(found["TimeoutStopSec"]) > ENDS_WITHIN_S.get(name, 0)
    assert found["EnvironmentFile"].lstrip("-") == f"/etc/zkcoord/{name}.env"
    assert {key: found.get(key) for key in HARDENING} == HARDENING
    started(name, {})


def test_the_console_is_the_coordinators_user_and_finds_its_journal() -> None:
    kept = ("User", "StateDirectory", "Environment")
    assert [unit("console")[key] for key in kept] == [unit("coordinator")[key] for key in kept]
    lines = (SYSTEMD / "console.env").read_text(encoding="utf-8").splitlines()
    told = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    token = {"CONSOLE_ACTIONS": "--actions-token-file=/run/credentials/x/console-tokens"}
    args = started("console", told | token)
    assert args.listen == "127.0.0.1:9407" and args.actions_token_file.endswith("console-tokens")
    resolve(Use.GROUPS, {}, told)


def test_a_guardian_of_its_own_outlives_whom_it_guards() -> None:
    """In a cgroup of its own, begun first and ended last, where others are told to look for it."""
    found, args = unit("guardian"), started("guardian", {"GUARD_OPTIONS": "--tls-file /ca.pem"})
    assert args.socket == f"/run/{found['RuntimeDirectory']}/guard.sock"
    assert (args.tls_file, args.command) == (["/ca.pem"], [])
    for name in USES:
        text = (SYSTEMD / f"zkcoord-{name}.service").read_text(encoding="utf-8")
        after = re.search(r"^After=(.*)$", text, re.M)
        assert after is not None and "zkcoord-guardian.service" in after[1].split()
        assert float(found["TimeoutStopSec"]) > float(unit(name)["TimeoutStopSec"])
    text = (SYSTEMD / "zkcoord-guardian.service").read_text(encoding="utf-8")
    assert f"#   ZKCOORD_GUARDIAN_SOCKET={args.socket}\n" in text


def test_a_gateway_reads_its_files_again_and_does_not_repeat_what_cannot_be() -> None:
    found = unit("gateway")
    assert found["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert found["RestartPreventExitStatus"] == "2"


@pytest.mark.parametrize("name", [*USES, "console"])
def test_a_unit_says_how_zkcoord_is_installed(name: str) -> None:
    """From this folder, with extras that there are."""
    text = (SYSTEMD / f"zkcoord-{name}.service").read_text(encoding="utf-8")
    (extras,) = re.findall(r"pip install '\.\[([a-z,]+)\]'", text)
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert all(f'"{extra}": ' in setup for extra in extras.split(","))
    assert "pip install ." in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", UNITS)
def test_what_a_unit_may_do_is_little_to_systemd_as_well(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"zkcoord-{name}.service"
    text = (SYSTEMD / path.name).read_text(encoding="utf-8")
    path.write_text(text.replace("/opt/zkcoord/bin/zkcoord", "/bin/true"), encoding="utf-8")
    asked = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    version = subprocess.run([*asked[:1], "--version"], capture_output=True, text=True).stdout
    if int(version.split()[1]) < OFFLINE_SINCE:
        pytest.skip(f"systemd {OFFLINE_SINCE} or newer judges units that are not installed")
    ended = subprocess.run(
        [*asked, f"--threshold={EXPOSURE_MAX}", str(path)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout[-2_000:] + ended.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong_with_a_unit(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"zkcoord-{name}.service"
    text = (SYSTEMD / path.name).read_text(encoding="utf-8")
    path.write_text(text.replace("/opt/zkcoord/bin/zkcoord", "/bin/true"), encoding="utf-8")
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True
    )
    ours = [line for line in ended.stderr.splitlines() if "zkcoord" in line]
    assert (ended.returncode, ours) == (0, [])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_what_a_unit_proposes(tmp_path: Path) -> None:
    """The examples in the comments, as `systemctl edit` has them after the unit."""
    path = tmp_path / "zkcoord-gateway.service"
    text = (SYSTEMD / path.name).read_text(encoding="utf-8")
    proposed = re.findall(r"^#   ((?:\[Service\]|[A-Z]\w+=\S+))$", text, re.M)
    assert len(proposed) == 6 and proposed.count("[Service]") == 2
    unit_text = text.replace("/opt/zkcoord/bin/zkcoord", "/bin/true")
    path.write_text("\n".join((unit_text, *proposed, "")), encoding="utf-8")
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True
    )
    ours = [line for line in ended.stderr.splitlines() if "zkcoord" in line]
    assert (ended.returncode, ours) == (0, [])
    names = re.findall(r"ZKCOORD_(\w+)=", "\n".join(proposed))
    resolve(Use.GATEWAY, {}, {f"ZKCOORD_{name}": "/x" for name in names})


@pytest.mark.parametrize("name", USES)
def test_the_example_of_an_environment_file_is_taken(name: str) -> None:
    text = (SYSTEMD / f"{name}.env").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    settings = resolve(USES[name], {}, dict(line.split("=", 1) for line in lines))
    assert len(lines) > 1 and all(line.startswith("ZKCOORD_") for line in lines)
    if name == "gateway":
        options = gateway_options(settings)
        assert options.host == "gw1.example" and options.http is not None
        zk_options(settings)
    else:
        assert (
            coordinator_settings(settings, tuple(ASSIGNORS), {"HOME": "/nowhere"}).http is not None
        )


def test_the_compose_file_has_two_gateways_that_are_watched_where_they_serve() -> None:
    names_of = re.findall(
        r"^  (gateway\d+):\n    <<: \*gateway\n    hostname: (\w+)$", COMPOSE, re.M
    )
    assert names_of == [("gateway1", "gateway1"), ("gateway2", "gateway2")]
    assert re.findall(r"ZKCOORD_ADVERTISE: (\w+)", COMPOSE) == ["gateway1", "gateway2"]
    block = COMPOSE.partition("x-gateway: &gateway\n")[2].partition("\nx-")[0]
    (command,) = re.findall(r"command: \[(.*)\]", block)
    words = [word.strip().strip('"') for word in command.split(",")]
    assert words[:2] == ["zkcoord", "gateway"]
    parser = argparse.ArgumentParser()
    add_flags(parser, Use.GATEWAY)
    given = vars(parser.parse_args(words[2:]))
    environment = dict(re.findall(r"^  (ZKCOORD_\w+): (\S+)$", COMPOSE, re.M))
    settings = resolve(Use.GATEWAY, given, {**environment, "ZKCOORD_ADVERTISE": "gateway1"})
    options = gateway_options(settings)
    assert options.http is not None and f"127.0.0.1:{options.http.port}/live" in block
    (grace_s,) = re.findall(r"stop_grace_period: (\d+)s", COMPOSE)
    assert int(grace_s) > END_S


def test_the_compose_files_console_is_for_this_host_alone() -> None:
    block = COMPOSE.partition("\n  console:\n")[2].partition("\n  consumer:\n")[0]
    (command,) = re.findall(r"command: \[(.*)\]", block)
    words = [word.strip().strip('"') for word in command.split(",")]
    assert words[0] == "zkcoord"
    parser = argparse.ArgumentParser()
    importlib.import_module(COMMANDS[words[1]].module).add_parser(parser.add_subparsers())
    port = parser.parse_args(words[1:]).listen.rpartition(":")[2]
    assert f'ports: ["127.0.0.1:{port}:{port}"]' in block and f"127.0.0.1:{port}/static/" in block
    assert COMPOSE.count("ports:") == 1


def test_without_an_engine_docker_test_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(docker_test, "find_java", lambda: None)
    monkeypatch.setattr("tests.docker.engine._rules", lambda: {"filter": ""})
    monkeypatch.setattr("tests.docker.engine._clean", lambda before: None)
    assert docker_test.run(tmp_path) == docker_test.NO_ENGINE
    said = "".join(capsys.readouterr())
    assert "there is no Docker engine on this machine" in said and "apt-get install" in said
