"""The journal: rotation, crashes, a full disk, and reading what others wrote."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.harness.wait import wait_until
from zkcoord.cli.journal import row
from zkcoord.cli.main import main
from zkcoord.config.settings import JournalOptions
from zkcoord.coordinator import journal as journal_module
from zkcoord.coordinator.journal import Journal, Reading, journal_files

PATIENCE_S = 60.0
BIG = 1 << 30


def options(folder: Path, file_bytes_max: int = BIG, files_max: int = 100) -> JournalOptions:
    return JournalOptions(folder, file_bytes_max, files_max)


def numbered(n: int, **more: Any) -> dict[str, Any]:
    return {"t": 1_700_000_000_000 + n, "kind": "term", "n": n, **more}


def read(folder: Path) -> list[dict[str, Any]]:
    return list(Reading().records(folder))


def test_what_was_written_is_read_in_order(tmp_path: Path) -> None:
    journal = Journal(options(tmp_path / "new" / "folder"))
    for n in range(500):
        journal.write(numbered(n))
    journal.close()
    assert [record["n"] for record in read(tmp_path / "new" / "folder")] == list(range(500))


def test_files_follow_one_another_and_the_oldest_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "BATCH_RECORDS_MAX", 1)
    journal = Journal(options(tmp_path, file_bytes_max=200, files_max=3))
    for n in range(50):
        journal.write(numbered(n, text="x" * 40))
    journal.close()
    files = journal_files(tmp_path)
    assert len(files) == 3
    assert all(file.stat().st_size <= 200 + 150 for file in files)
    numbers = [record["n"] for record in read(tmp_path)]
    assert numbers == list(range(numbers[0], 50)) and numbers[0] > 30


def test_a_file_that_another_process_writes_is_not_deleted(tmp_path: Path) -> None:
    theirs, dead = tmp_path / "1000-1.000001.jsonl", tmp_path / "1001-2.000001.jsonl"
    for path in (theirs, dead):
        path.write_bytes(json.dumps(numbered(1)).encode() + b"\n")
    with theirs.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        journal = Journal(options(tmp_path, files_max=1))
        journal.write(numbered(2))
        journal.close()
        assert theirs.exists() and not dead.exists()


def test_only_journal_files_are_touched(tmp_path: Path) -> None:
    names = ["notes.jsonl", "a-b.c.jsonl", "1-2.3.txt", "1-2.jsonl"]
    for name in names:
        (tmp_path / name).write_text("keep")
    journal = Journal(options(tmp_path, files_max=1))
    journal.write(numbered(1))
    journal.close()
    assert all((tmp_path / name).exists() for name in names)
    assert len(journal_files(tmp_path)) == 1


@pytest.mark.parametrize(
    "name", ["²-1.000001.jsonl", "1-²-1.jsonl", "1-1.000001.jsonl/", f"{'9' * 200}-1.1.jsonl"]
)
def test_what_looks_like_a_journals_file_is_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name.removesuffix("/")
    if name.endswith("/"):
        path.mkdir()
    else:
        path.write_bytes(b"")
    journal = Journal(options(tmp_path))
    journal.write(numbered(1))
    journal.close()
    assert [record["n"] for record in read(tmp_path)] == [1] and path.exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert journal_files(tmp_path / "file") == []


def test_torn_and_foreign_lines_are_survived(tmp_path: Path) -> None:
    whole = [json.dumps(numbered(n)).encode() + b"\n" for n in range(3)]
    junk = [
        b"\n",
        b"{}\n",
        b"[1]\n",
        b'{"t": "x", "kind": "y"}\n',
        b"\xff\xfe\n",
        b"[" * 5_000 + b"\n",
        b'{"t": true, "kind": "y"}\n',
    ]
    path = tmp_path / "5-1.000001.jsonl"
    path.write_bytes(whole[0] + b"".join(junk) + whole[1] + whole[2][:-7])
    reading = Reading()
    assert [record["n"] for record in reading.records(tmp_path)] == [0, 1]
    assert reading.unreadable == len(junk)
    with path.open("ab") as file:
        file.write(whole[2][-7:])
    assert [record["n"] for record in reading.records(tmp_path)] == [2], (
        "the torn line is read once its end is there"
    )


def test_any_cut_of_a_file_gives_a_prefix_of_its_records(tmp_path: Path) -> None:
    """A crash may cut anywhere."""
    journal = Journal(options(tmp_path))
    for n in range(20):
        journal.write(numbered(n, text='a"\\é'))
    journal.close()
    (path,) = journal_files(tmp_path)
    data = path.read_bytes()
    for cut in random.Random(1).sample(range(len(data)), 100):
        path.write_bytes(data[:cut])
        reading = Reading()
        numbers = [record["n"] for record in reading.records(tmp_path)]
        assert numbers == list(range(len(numbers))) and reading.unreadable == 0


def test_journals_of_several_processes_are_merged_by_time(tmp_path: Path) -> None:
    for pid, times in ((1, [1, 4, 6]), (2, [2, 3, 7]), (3, [5])):
        (tmp_path / f"9-{pid}.000001.jsonl").write_bytes(
            b"".join(json.dumps(numbered(t)).encode() + b"\n" for t in times)
        )
    assert [record["n"] for record in read(tmp_path)] == [1, 2, 3, 4, 5, 6, 7]


def test_a_full_disk_loses_records_counts_them_and_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_module, "RETRY_MS", 0)
    journal = Journal(options(tmp_path))
    journal.write(numbered(1))
    wait_until(lambda: len(read(tmp_path)) == 1, PATIENCE_S, "the first record")
    real = Journal._open_next

    def full(self: Journal) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "_open_next", full)
    # on its own thread, which may still be at the end of the first batch
    journal.submit(journal._close_file)
    for n in (2, 3, 4):  # one after the other, so that each is a batch of its own
        journal.write(numbered(n))
        wait_until(partial(_lost, journal, n - 1), PATIENCE_S, "the loss to be counted")
    assert "No space left" in caplog.text
    monkeypatch.setattr(Journal, "_open_next", real)
    journal.write(numbered(5))
    journal.close()
    kept = read(tmp_path)
    assert [record["n"] for record in kept if record["kind"] == "term"] == [1, 5]
    assert [record["records"] for record in kept if record["kind"] == "lost"] == [3]


def _lost(journal: Journal, count: int) -> bool:
    return journal.lost == count


class Disk:
    """Stands in for `open`: while `full`, a write puts down a part and then fails, as a disk's does
    that becomes full under it.
    """

    def __init__(self) -> None:
        self.full = False

    def open(self, *args: Any, **options: Any) -> Any:
        return OnDisk(self, open(*args, **options))


class OnDisk:
    """A file of it."""

    def __init__(self, disk: Disk, file: Any) -> None:
        self._disk, self._file = disk, file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        if not self._disk.full:
            return int(self._file.write(data))
        self._file.write(bytes(data[:10]))
        self._file.flush()
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_costs_nothing_that_was_written_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files can be made where nothing can be written: one at each attempt would push the oldest,
    which have the story, out of the folder.
    """
    disk = Disk()
    monkeypatch.setattr(journal_module, "open", disk.open, raising=False)
    monkeypatch.setattr(journal_module, "RETRY_MS", 0)
    monkeypatch.setattr(journal_module, "BATCH_RECORDS_MAX", 1)
    journal = Journal(options(tmp_path, file_bytes_max=200, files_max=3))
    for n in range(8):
        journal.write(numbered(n))
    wait_until(
        lambda: [record["n"] for record in read(tmp_path)][-1:] == [7], PATIENCE_S, "the records"
    )
    before = read(tmp_path)
    disk.full = True
    for n in range(8, 20):
        journal.write(numbered(n))
        wait_until(partial(_lost, journal, n - 7), PATIENCE_S, "the loss to be counted")
    assert read(tmp_path) == before
    disk.full = False
    journal.write(numbered(20))
    journal.close()
    reading = Reading()
    after = list(reading.records(tmp_path))
    assert [record["n"] for record in after if record["kind"] == "term"] == [
        *(record["n"] for record in before),
        20,
    ] and reading.unreadable == 0
    assert [record["records"] for record in after if record["kind"] == "lost"] == [12]


def test_a_process_that_starts_on_a_full_disk_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is started again and again would leave nothing but its own empty files."""
    journal = Journal(options(tmp_path))
    journal.write(numbered(1))
    journal.close()
    disk = Disk()
    monkeypatch.setattr(journal_module, "open", disk.open, raising=False)
    disk.full = True
    for life in range(4):
        monkeypatch.setattr(journal_module, "wall_ms", lambda life=life: 2_000_000_000_000 + life)
        journal = Journal(options(tmp_path, files_max=2))
        journal.write(numbered(2))
        journal.close()
        assert journal.lost == 1
    assert [record["n"] for record in read(tmp_path)] == [1]


def test_too_many_waiting_records_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "RECORDS_WAITING_MAX", 10)
    monkeypatch.setattr(Journal, "_turn", lambda self: False)
    journal = Journal(options(tmp_path))
    journal._thread.join(PATIENCE_S)
    for n in range(25):
        journal.write(numbered(n))
    assert journal.lost == 15
    journal.close()


def test_a_record_too_large_keeps_what_it_is_about(tmp_path: Path) -> None:
    journal = Journal(options(tmp_path))
    journal.write(numbered(1, group="g", text="x" * 300_000))
    journal.close()
    (found,) = read(tmp_path)
    assert found["group"] == "g" and found["oversize_bytes"] > 300_000 and "text" not in found


def test_values_that_are_not_json_are_written_as_text(tmp_path: Path) -> None:
    journal = Journal(options(tmp_path))
    journal.write(numbered(1, odd=Path("/x"), nested={"a": {1, 2}}))
    journal.close()
    assert read(tmp_path)[0]["odd"] == "/x"


def test_a_folder_that_cannot_be_written_is_said_when_it_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        Journal(options(tmp_path / "file" / "below"))


# zkcoord journal


REBALANCE = {
    "t": 1_700_000_000_123,
    "kind": "rebalance",
    "group": "billing",
    "generation": 31,
    "cause": "member joined",
    "trigger": "billing_h-1-00000000",
    "duration_ms": 38,
    "moved": 6,
    "members": 4,
    "unassigned": 0,
    "stops": 2,
    "starts": 2,
    "waited_for": [
        {"member": "m1", "ms": 21},
        {"member": "m2", "ms": 4},
        {"member": "m3", "ms": 1},
    ],
}


def journal_with(folder: Path, *records: dict[str, Any]) -> None:
    (folder / "5-1.000001.jsonl").write_bytes(
        b"".join(json.dumps(record).encode() + b"\n" for record in records)
    )


def test_the_table_tells_what_happened_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal_with(
        tmp_path,
        {"t": 1_700_000_000_000, "kind": "term", "event": "elected", "epoch": 7},
        REBALANCE,
        {
            "t": 1_700_000_001_000,
            "kind": "evicted",
            "group": "billing",
            "member": "m3",
            "reason": "did not answer a command in time",
        },
        {
            "t": 1_700_000_002_000,
            "kind": "evicted",
            "group": "other",
            "member": "m9",
            "reason": "r",
        },
        {
            "t": 1_700_000_003_000,
            "kind": "inputs",
            "event": "stopped",
            "epoch": 7,
            "reason": "recording of inputs stopped: the limit is reached",
        },
    )
    assert main(["journal", "--dir", str(tmp_path), "--group", "billing"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split()[:5] == ["TIME", "GROUP", "WHAT", "WHY", "TRIGGER"]
    assert "elected (epoch 7)" in out[1]
    for part in (
        "2023-11-14T22:13:20.123Z",
        "billing",
        "rebalance 31",
        "member joined",
        "billing_h-1-00000000",
        "38 ms",
        "m1 21 ms, m2 4 ms, 1 more",
    ):
        assert part in out[2]
    assert (
        "member evicted" in out[3]
        and "did not answer a command in time" in out[3]
        and "m3" in out[3]
    )
    assert "recording of inputs stopped" in out[4]
    assert len(out) == 5
    assert main(["journal", "--dir", str(tmp_path), "-n", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "inputs"


def test_a_row_comes_out_of_any_record() -> None:
    odd: list[Any] = [
        None,
        "",
        "\x1b[31m",
        7,
        [],
        {},
        [{}],
        [{"ms": 1}],
        ["x"],
        -1,
        10**30,
        True,
        "x" * 1_000,
    ]
    for kind in (
        "rebalance",
        "term",
        "evicted",
        "malformed",
        "broker",
        "lost",
        "members",
        "trouble",
        "\x1bodd",
    ):
        for value in odd:
            keys = (
                "group",
                "generation",
                "cause",
                "trigger",
                "duration_ms",
                "moved",
                "members",
                "unassigned",
                "waited_for",
                "event",
                "epoch",
                "reason",
                "member",
                "what",
                "name",
                "records",
                "joined",
                "left",
                "trouble",
                "evidence",
            )
            cells = row(
                {"t": 10**30 if value == 10**30 else 5, "kind": kind, **dict.fromkeys(keys, value)}
            )
            assert len(cells) == 9 and all(cell.isprintable() for cell in cells), (
                kind,
                value,
                cells,
            )


@pytest.mark.parametrize(
    ("more", "what", "why"),
    [
        ({"event": "from Kafka", "cluster": "c"}, "topics: from Kafka", "cluster c"),
        ({"event": "from ZooKeeper"}, "topics: from ZooKeeper", "-"),
        (
            {"event": "another cluster", "cluster": "d", "expected": "c"},
            "topics: another cluster",
            "cluster d, and not c",
        ),
    ],
)
def test_where_topics_come_from_is_told(more: dict[str, str], what: str, why: str) -> None:
    """As docs/migration.md says."""
    assert row({"t": 5, "kind": "topics", "group": "", **more})[2:4] == [what, why]


def test_no_journal_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "--dir", str(tmp_path / "none")]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "--journal-dir" in err
    assert main(["journal", "--dir", str(tmp_path), "-n", "-3"]) == 2
    assert main(["journal", "--dir", str(tmp_path), "--group", "a/b"]) == 2


def test_follow_reads_on_across_files(tmp_path: Path) -> None:
    reading = Reading()
    assert list(reading.records(tmp_path)) == []
    journal_with(tmp_path, REBALANCE)
    assert len(list(reading.records(tmp_path))) == 1
    assert list(reading.records(tmp_path)) == []
    (tmp_path / "5-1.000002.jsonl").write_bytes(json.dumps(REBALANCE).encode() + b"\n")
    assert len(list(reading.records(tmp_path))) == 1
    os.unlink(tmp_path / "5-1.000001.jsonl")
    assert list(reading.records(tmp_path)) == []
