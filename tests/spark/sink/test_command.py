"""`python -m zkcoord.consumer.spark.sink` against a real ZooKeeper and a real directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.security import make_acl

from consumer.spark.sink import __main__ as command
from consumer.spark.sink import publication
from consumer.spark.sink.effects import carry_out
from consumer.spark.sink.fence import Batch
from tests.security.principals import PASSWORDS, hashed
from tests.spark.sink.bench import EACH, GROUP, LAYOUT, Bench


def committed(bench: Bench) -> Batch:
    """A batch that counts, none of whose files is moved: its application is there no more."""
    member = bench.member()
    batch = member.plan()
    work, answer = publication.publish(bench.place, batch, "0a"), None
    while not bench.left()[0]:
        answer = carry_out(work.send(answer), bench.keeper, bench.files, bench.stage(batch))
    member.leave()
    bench.member()
    return batch


def arguments(bench: Bench, *more: str) -> list[str]:
    return ["--zookeeper", bench.hosts, "--group", GROUP, "--directory", str(bench.folder), *more]


def test_what_a_departed_application_has_committed_becomes_visible(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    committed(bench)
    assert not bench.visible()
    assert command.main(arguments(bench)) == 0
    assert (
        capsys.readouterr().out
        == "1 committed batches of billing were not visible, 0 are not now\n"
    )
    assert bench.visible() == bench.expected(EACH) and bench.left() == ([], ())
    assert command.main(arguments(bench)) == 0
    assert (
        capsys.readouterr().out
        == "0 committed batches of billing were not visible, 0 are not now\n"
    )


def test_another_directory_is_left_alone(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    committed(bench)
    (tmp_path / "elsewhere").mkdir()
    assert (
        command.main(
            [
                "--zookeeper",
                bench.hosts,
                "--group",
                GROUP,
                "--directory",
                f"file://{tmp_path}/elsewhere",
            ]
        )
        == 0
    )
    assert (
        "1 committed batches of billing were not visible, 1 are not now (those of applications that"
        " live, or write to another directory," in capsys.readouterr().out
    )
    assert len(bench.left()[0]) == 1


def test_credentials_are_those_of_every_command(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = committed(bench)
    for path in (batch.intent, LAYOUT.publications(GROUP)):
        bench.members[-1].client.set_acls(path, [make_acl("digest", hashed("app"), all=True)])
    assert command.main(arguments(bench)) == 1
    said = capsys.readouterr().err
    assert (
        said.startswith(
            "python -m zkcoord.consumer.spark.sink: ZooKeeper does not let this application read"
        )
        and said.count("\n") == 1
    )
    (tmp_path / "password").write_text(PASSWORDS["app"])
    (tmp_path / "password").chmod(0o600)
    assert (
        command.main(
            arguments(
                bench,
                "--zookeeper-user",
                "app",
                "--zookeeper-password-file",
                str(tmp_path / "password"),
            )
        )
        == 0
    )
    assert bench.visible() == bench.expected(EACH)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--group", "g"], "the following arguments are required: --directory"),
        (
            ["--group", "g", "--directory", "/nowhere/at all", "--zookeeper", "127.0.0.1:1"],
            "there is no such directory",
        ),
        (["--group", "g", "--directory", "."], "no ZooKeeper is named"),
        (
            ["--group", "a/b", "--directory", ".", "--zookeeper", "127.0.0.1:1"],
            "the group name 'a/b' is refused",
        ),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    wrong: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZKCOORD_ZOOKEEPER", raising=False)
    assert command.main(wrong) == 2
    told = capsys.readouterr()
    assert said in told.err and told.err.count("\n") == 1 and not told.out


def test_its_help_has_an_example() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "consumer.spark.sink", "--help"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert (
        "python -m zkcoord.consumer.spark.sink --zookeeper zk1:2181/kafka --group billing"
        in answer.stdout
    )
