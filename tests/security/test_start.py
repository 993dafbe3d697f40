"""What is said, refused and mended on an ensemble that is open, or was. Commands run in this
process; one coordinator is a process of its own.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
from kazoo.security import make_digest_acl

from tests.harness.command import Running
from tests.harness.zookeeper import disconnect
from tests.security.principals import PASSWORDS, ROLES, STRANGER, client_as, digest, flags
from zkcoord.cli.main import main
from zkcoord.config.option_spec import ENVIRONMENT_PREFIX, Use
from zkcoord.config.settings import coordinator_settings
from zkcoord.config.sources import resolve
from zkcoord.coordinator.acl_check import look_at_acls
from zkcoord.errors import ConfigurationError, RefusedError
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import CONSUMERS, Layout

WHO = dict(zip(("acl_coordinators", "acl_members", "acl_readers"), flags()[1::2]))
USER = {"zookeeper_user": "coord", "zookeeper_password": PASSWORDS["coord"]}


@pytest.fixture(autouse=True)
def nothing_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No option from this process's environment."""
    for name in [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]:
        monkeypatch.delenv(name)


@pytest.fixture
def coordinator(tmp_path: Path, zk_hosts: str) -> tuple[str, ...]:
    """Flags of whoever coordinates."""
    password = tmp_path / "password"
    password.write_text(PASSWORDS["coord"] + "\n", encoding="utf-8")
    return (
        "--zookeeper",
        zk_hosts,
        "--zookeeper-user",
        "coord",
        "--zookeeper-password-file",
        str(password),
        *flags(),
    )


def test_what_kafka_leaves_open_is_refused_by_secure_and_named_until_it_is_mended(
    zk_hosts: str,
    coordinator: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A warning, a refusal, an audit, a dry run, a real run, and then nothing any more."""
    caplog.set_level(logging.INFO)
    anybody = client_as(zk_hosts, STRANGER)
    anybody.create(CONSUMERS)
    anybody.create(f"{CONSUMERS}/old/offsets/t/0", b"5", makepath=True)
    disconnect(anybody)
    zk = ZkOptions(zk_hosts, digest=digest("coord"), roles=ROLES)
    look_at_acls(zk, Layout.DRAFT, secure=False)
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 5 and f"{CONSUMERS}: world:anyone may rwcda" in str(vars(warned[0]))
    with pytest.raises(
        RefusedError,
        match=(
            "1 node above all groups, or topics, may be used by others than allowed"
            f" .{CONSUMERS}: world:anyone may rwcda.*zkcoord acl apply"
        ),
    ):
        look_at_acls(zk, Layout.DRAFT, secure=True)
    assert main(["acl", "audit", *coordinator, "--json"]) == 3
    assert [
        found["path"] for found in json.loads(capsys.readouterr().out)["findings"] if found["open"]
    ][0] == CONSUMERS
    assert main(["acl", "apply", *coordinator]) == 0 and capsys.readouterr().out.endswith(
        "5 nodes looked at: 5 open, 0 otherwise different\n"
    )
    assert (
        main(["acl", "apply", *coordinator, "--execute"]) == 0
        and capsys.readouterr().out == "5 nodes changed\n"
    )
    assert main(["acl", "audit", *coordinator]) == 0
    look_at_acls(zk, Layout.DRAFT, secure=True)


def test_what_is_to_be_mended_is_mended_before_anything_is_printed(
    zk_hosts: str, coordinator: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads the output may be gone before the first line of it."""
    anybody = client_as(zk_hosts, STRANGER)
    anybody.create(f"{CONSUMERS}/groups/old/mode", b"{}", makepath=True)
    disconnect(anybody)

    def gone(*_: object, **named: object) -> None:
        raise BrokenPipeError

    with monkeypatch.context() as patched:
        patched.setattr("zkcoord.cli.acl.out", gone)
        assert main(["acl", "audit", *coordinator]) == 3, "it has found something all the same"
        assert main(["acl", "apply", *coordinator, "--execute"]) == 0
    assert main(["acl", "audit", *coordinator]) == 0


def test_who_may_not_mend_is_told_so(zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    owner = client_as(zk_hosts, "coord")
    owner.create(
        CONSUMERS,
        acl=[
            make_digest_acl("coord", PASSWORDS["coord"], all=True),
            make_digest_acl("viewer", PASSWORDS["viewer"], read=True),
        ],
    )
    disconnect(owner)
    viewer = (
        "--zookeeper",
        zk_hosts,
        "--zookeeper-user",
        "viewer",
        "--zookeeper-password",
        PASSWORDS["viewer"],
        *flags(),
    )
    assert (
        main(["acl", "audit", *viewer]) == 3
        and f"{CONSUMERS}: digest:app lacks r\n" in capsys.readouterr().out
    )
    assert main(["acl", "apply", "--execute", *viewer]) == 1
    assert "does not let this client change 1 node " in capsys.readouterr().err


def test_a_secured_coordinator_leads(tmp_path: Path, coordinator: tuple[str, ...]) -> None:
    with Running(tmp_path / "c", *coordinator, "--secure") as process:
        process.ready("leading")
        assert "open=0" in process.log


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"secure": True}, "acl_coordinators and acl_members"),
        ({**USER, "acl_members": "sasl:app"}, "names nobody"),
        ({**USER, "acl": "world:anyone:r", **WHO}, "leave acl out"),
        (WHO, "no credentials"),
        ({**USER, **WHO, "zookeeper_password": "wr0ng"}, "with this password"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_opened(
    more: dict[str, object], part: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=part) as caught:
        coordinator_settings(
            resolve(Use.COORDINATOR, {"zookeeper": "h:1", **more}, {}),
            ("range", "sticky"),
            {"HOME": str(tmp_path)},
        )
    assert "\n" not in str(caught.value) and "wr0ng" not in str(caught.value)


def test_credentials_that_protect_nothing_are_worth_a_warning(tmp_path: Path) -> None:
    def notes(more: dict[str, object]) -> tuple[str, ...]:
        return coordinator_settings(
            resolve(Use.COORDINATOR, {"zookeeper": "h:1", **USER, **more}, {}),
            ("range", "sticky"),
            {"HOME": str(tmp_path)},
        ).notes

    assert "created open to everybody" in " ".join(notes({}))
    assert notes({"acl": "open"}) == notes(WHO) == ()
