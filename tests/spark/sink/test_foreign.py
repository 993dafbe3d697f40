"""What others write about a sink is foreign input: an intent or a manifest that no writer of that
batch would have written is left where it is and named; nothing is moved or removed by it, and the
batches beside it become visible.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from consumer.spark.plan import Plan, PlanError
from consumer.spark.sink import __main__ as command
from consumer.spark.sink import manifest as docs
from consumer.spark.sink import publication
from consumer.spark.sink.effects import carry_out, perform
from consumer.spark.sink.errors import DamagedSinkError, SinkError
from consumer.spark.sink.fence import Batch
from consumer.spark.sink.files import LocalFiles
from consumer.spark.sink.publication import MoveEnded
from consumer.spark.sink.running_batch import current
from tests.sim.tree import Tree, Txn
from tests.spark.sink.bench import EACH, GROUP, LAYOUT, Bench
from zkcoord.zk.port import Committed, Create, MultiResult, Op, Read, ReadAnswer, Rejected
from zkcoord.znodes.codec import Publication, encode_publication
from zkcoord.znodes.names import NAME_CHARS_MAX, is_group
from zkcoord.znodes.paths import parents

GONE = 7
NODE = f"{GONE}-0"
ATTEMPT = f"{docs.staging(GROUP)}/{GONE}/0-0a"
DIRECTORY = "file:///sink"
FUZZ = 400


class TreeKeeper:
    """Answers from a model of ZooKeeper; what was left alone."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.zxid = 0
        self.left: dict[str, str] = {}
        self.options: Any = None

    def look(self, reads: Sequence[Read]) -> list[ReadAnswer]:
        return [self.tree.answer(read) for read in reads]

    def transact(self, ops: Sequence[Op]) -> MultiResult:
        self.zxid += 1
        result = self.tree.execute(ops, 0, Txn(self.zxid, 0, 0, "", "multi"))
        return result if isinstance(result, Rejected) else Committed(result)

    def leave(self, path: str, why: str) -> None:
        self.left[path] = why

    def put(self, path: str, data: bytes) -> None:
        for above in parents(path):
            self.transact([Create(above, b"")])
        assert isinstance(self.transact([Create(path, data)]), Committed)


def document(files: Sequence[tuple[str, str]], node: str = NODE) -> bytes:
    return docs.encode_manifest(docs.Manifest(node, (("orders", 0, 0, 1),), tuple(files)))


def put(root: Path, path: str, data: bytes) -> bool:
    """Whether a file of this path can be made there."""
    try:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    except (OSError, ValueError):
        return False
    return True


def everything(root: Path) -> dict[str, bytes]:
    """Each file below a folder, and where each link leads."""
    return {
        os.path.join(place, name): (
            os.readlink(os.path.join(place, name)).encode()
            if os.path.islink(os.path.join(place, name))
            else Path(place, name).read_bytes()
        )
        for place, folders, names in os.walk(root)
        for name in (*names, *(f for f in folders if os.path.islink(os.path.join(place, f))))
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A sink's directory with what is published, another group's staging, and a neighbour."""
    found = tmp_path / "sink"
    put(found, "7-0-part.txt", b"published")
    put(found, "day=1/x", b"published, too")
    put(found, "6-3-part-0.parquet", b"of another batch")
    put(found, "_zkcoord/other/staging/9/0-0a/part-0.parquet", b"another group's")
    put(tmp_path, "outside/secret", b"not the sink's")
    put(found, f"{ATTEMPT}/day=2/part-0.parquet", b"staged")
    return found


def recovered(root: Path, manifest: str, data: bytes, node: str = NODE) -> TreeKeeper:
    """Recovery beside an intent that names this manifest, whose digest is right."""
    keeper = TreeKeeper()
    intent = encode_publication(Publication(DIRECTORY, manifest, docs.digest(data)))
    keeper.put(LAYOUT.publication(GROUP, node), intent)
    recover(root, keeper)
    return keeper


def recover(root: Path, keeper: TreeKeeper) -> None:
    place = publication.SinkPlace(LAYOUT, GROUP, DIRECTORY)
    perform(publication.recover(place, 0), keeper, LocalFiles(root))  # type: ignore[arg-type]


def is_left(keeper: TreeKeeper, node: str = NODE) -> bool:
    path = LAYOUT.publication(GROUP, node)
    return path in keeper.tree.nodes and list(keeper.left) == [path]


@pytest.mark.parametrize(
    "manifest",
    [
        "7-0-part.txt",
        "day=1/x",
        "_manifest.json",
        "_zkcoord/_manifest.json",
        f"_zkcoord/other/staging/{GONE}/0-0a/_manifest.json",
        f"_zkcoord/{GROUP}/staging/x8/0-0a/_manifest.json",
        f"_zkcoord/{GROUP}/staging/{GONE}/1-0a/_manifest.json",
        f"_zkcoord/{GROUP}/staging/{GONE}/0-/_manifest.json",
        f"_zkcoord/{GROUP}/staging/{GONE}/0-0a/day=2/_manifest.json",
        f"_zkcoord/{GROUP}/staging/{GONE}/_manifest.json",
        f"_zkcoord/{GROUP}/staging/{GONE}/0-é/_manifest.json",
    ],
)
def test_a_manifest_elsewhere_is_left_and_nothing_is_removed(root: Path, manifest: str) -> None:
    """The first two of these removed the folder that they lie in, with all that was published."""
    source = f"{manifest.rpartition('/')[0]}/part-0.parquet".lstrip("/")
    put(root, source, b"staged")
    data = document([(source, f"{NODE}-part-0.parquet")])
    assert put(root, manifest, data)
    before = everything(root.parent)
    assert is_left(recovered(root, manifest, data))
    assert everything(root.parent) == before


STAGED = f"{ATTEMPT}/day=2/part-0.parquet"
PUBLISHED = f"day=2/{NODE}-part-0.parquet"


@pytest.mark.parametrize(
    "files",
    [
        [("6-3-part-0.parquet", f"{NODE}-part-0.parquet")],
        [("6-3-part-0.parquet", "day=1/x")],
        [(STAGED, "day=1/x")],
        [(STAGED, "6-3-part-0.parquet")],
        [(STAGED, "day=2/part-0.parquet")],
        [(STAGED, f"_zkcoord/other/staging/{NODE}-part-0.parquet")],
        [(STAGED, f"{NODE}-part-0.parquet")],
        [(STAGED, PUBLISHED), (STAGED, PUBLISHED)],
        [(f"{ATTEMPT}/_manifest.json", f"{NODE}-_manifest.json")],
        [(f"{ATTEMPT}/_marker", f"_zkcoord/{GROUP}/batches/{NODE}")],
        [("_zkcoord/other/staging/9/0-0a/part-0.parquet", f"{NODE}-part-0.parquet")],
    ],
)
def test_a_manifest_moves_what_is_staged_to_its_own_name(
    root: Path, files: list[tuple[str, str]]
) -> None:
    data = document(files)
    put(root, f"{ATTEMPT}/{docs.MANIFEST}", data)
    before = everything(root.parent)
    assert is_left(recovered(root, f"{ATTEMPT}/{docs.MANIFEST}", data))
    assert everything(root.parent) == before


def test_what_is_so_becomes_visible(root: Path) -> None:
    """The cases above are left for what is wrong with them, not for what is right."""
    data = document([(STAGED, PUBLISHED)])
    put(root, f"{ATTEMPT}/{docs.MANIFEST}", data)
    keeper = recovered(root, f"{ATTEMPT}/{docs.MANIFEST}", data)
    assert not keeper.left and LAYOUT.publication(GROUP, NODE) not in keeper.tree.nodes
    assert (root / PUBLISHED).read_bytes() == b"staged" and not (root / ATTEMPT).exists()


def test_a_target_that_is_there_is_not_overwritten(root: Path) -> None:
    data = document([(STAGED, PUBLISHED)])
    put(root, f"{ATTEMPT}/{docs.MANIFEST}", data)
    put(root, PUBLISHED, b"somebody else's")
    before = everything(root.parent)
    keeper = recovered(root, f"{ATTEMPT}/{docs.MANIFEST}", data)
    assert is_left(keeper) and "is there" in str(keeper.left)
    assert everything(root.parent) == before


@pytest.mark.parametrize("linked", ["file", "attempt", "staging", "target", "manifest"])
def test_no_link_is_followed(root: Path, linked: str) -> None:
    """Neither to read, nor to move along, nor to remove what is behind it."""
    outside = root.parent / "outside"
    data = document([(STAGED, PUBLISHED)])
    put(root, f"{ATTEMPT}/{docs.MANIFEST}", data)
    places = {
        "file": root / STAGED,
        "attempt": root / ATTEMPT,
        "staging": root / docs.staging(GROUP),
        "target": root / "day=2",
        "manifest": root / ATTEMPT / docs.MANIFEST,
    }
    place = places[linked]
    if place.exists():
        place.rename(outside / place.name)
    else:
        (outside / place.name).mkdir()
    place.symlink_to(outside / place.name)
    before = everything(outside)
    keeper = TreeKeeper()
    intent = Publication(DIRECTORY, f"{ATTEMPT}/{docs.MANIFEST}", docs.digest(data))
    keeper.put(LAYOUT.publication(GROUP, NODE), encode_publication(intent))
    try:
        recover(root, keeper)
    except DamagedSinkError as error:  # where the manifest itself cannot be read
        assert linked in ("attempt", "staging", "manifest"), error
    assert everything(outside) == before and place.is_symlink()
    assert LAYOUT.publication(GROUP, NODE) in keeper.tree.nodes
    assert not (root / PUBLISHED).exists() or linked == "target"


def strange(draw: random.Random) -> str:
    """A path that somebody might think of."""
    pieces = [
        "..", ".", "", "/", "//", "_zkcoord", GROUP, "staging", str(GONE), "0-0a", "day=1", "x",
        "outside", "secret", "link", docs.MANIFEST, "7-0-part.txt", "grüße", "\u202e", "\ud800",
        "\0", "\n", "a" * 300, "x" * 5_000, "~", "%2e%2e", "..%2f", " ", NODE, "_marker", "file:",
        "\\..\\", "day=2/part-0.parquet", ATTEMPT, docs.staging(GROUP),
    ]  # fmt: skip
    joined = "/".join(draw.choice(pieces) for _ in range(draw.randint(1, 7)))
    return draw.choice(("", "", "", "/", f"{ATTEMPT}/", f"{docs.staging(GROUP)}/")) + joined


@pytest.mark.parametrize("part", range(4))
def test_no_path_touches_anything_but_its_own_staging(tmp_path: Path, part: int) -> None:
    """Intents and manifests of strange paths: nothing outside the attempt is changed, and the
    batch beside them becomes visible.
    """
    draw = random.Random(part)
    root = tmp_path / "sink"
    put(root, "7-0-part.txt", b"published")
    put(root, "day=1/x", b"published, too")
    put(tmp_path, "outside/secret", b"not the sink's")
    (root / "link").symlink_to(tmp_path / "outside")
    for number in range(FUZZ // 4):
        put(root, STAGED, b"staged")
        data = document(
            [(strange(draw), strange(draw)) for _ in range(draw.randint(0, 2))]
            + draw.choice([[], [(STAGED, PUBLISHED)]]),
            draw.choice((NODE, strange(draw))),
        )
        own = f"{ATTEMPT}/{docs.MANIFEST}"
        manifest = draw.choice((own, strange(draw)))
        put(root, own, data)
        if not os.path.isabs(manifest) and ".." not in manifest and "link" not in manifest:
            put(root, manifest, data)
        keeper = TreeKeeper()
        beside, good = f"{docs.staging(GROUP)}/8/{number}-0a", f"8-{number}"
        put(root, f"{beside}/part-1.parquet", b"%d" % number)
        fine = document([(f"{beside}/part-1.parquet", f"{good}-part-1.parquet")], good)
        put(root, f"{beside}/{docs.MANIFEST}", fine)
        for node, path, text in ((NODE, manifest, data), (good, f"{beside}/{docs.MANIFEST}", fine)):
            intent = encode_publication(Publication(DIRECTORY, path, docs.digest(text)))
            keeper.put(LAYOUT.publication(GROUP, node), intent)
        before = everything(tmp_path)
        try:
            recover(root, keeper)
        except DamagedSinkError:
            assert LAYOUT.publication(GROUP, NODE) in keeper.tree.nodes
        after = everything(tmp_path)
        assert after.pop(str(root / f"{good}-part-1.parquet")) == b"%d" % number
        (root / f"{good}-part-1.parquet").unlink()
        changed = {
            path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
        }
        allowed = (str(root / ATTEMPT), str(root / docs.staging(GROUP) / "8"))
        strays = {path for path in changed if not path.startswith(allowed)}
        assert strays <= {str(root / PUBLISHED)}, (manifest, data)
        (root / PUBLISHED).unlink(missing_ok=True)


def test_files_themselves_follow_no_link(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "sink")
    put(tmp_path, "outside/secret", b"1")
    put(tmp_path, "sink/part", b"2")
    (tmp_path / "sink" / "way").symlink_to(tmp_path / "outside")
    (tmp_path / "sink" / "file").symlink_to(tmp_path / "outside" / "secret")
    files.remove("way")
    files.remove("way/secret")
    assert files.fetch("way/secret") is None and files.fetch("file") is None
    assert files.fetch("way") is None and files.folders("way/.") == ()
    assert files.move("part", "way/part") is MoveEnded.REFUSED
    assert files.move("way/secret", "stolen") is MoveEnded.REFUSED
    assert files.move("file", "stolen") is MoveEnded.REFUSED
    assert files.move("part", "file") is MoveEnded.REFUSED
    with pytest.raises(SinkError, match="a symbolic link"):
        files.put("way/new", b"3")
    assert everything(tmp_path / "outside") == {str(tmp_path / "outside" / "secret"): b"1"}
    assert (tmp_path / "sink" / "part").read_bytes() == b"2"


def test_a_groups_folder_has_a_name_that_file_systems_take() -> None:
    groups = ("billing", "team:billing", "a b", "grüße", "%3A", "x" * NAME_CHARS_MAX, "é" * 249)
    folders = [docs.folder_of(group) for group in groups]
    assert folders[:4] == ["billing", "team%3Abilling", "a%20b", "gr%C3%BC%C3%9Fe"]
    assert len(set(folders)) == len(folders)
    for folder in folders:
        assert folder.isascii() and len(folder) <= 200 and not set(folder) & set(":/\\ ")
    assert docs.folder_of(folders[-1]) != folders[-1] or not is_group(folders[-1])


def test_an_intent_in_a_members_name_loses_no_batch(bench: Bench) -> None:
    """Somebody has made the node that says that its batch happened: the query ends, and says so."""
    member = bench.member()
    batch = member.plan()
    member.client.ensure_path(LAYOUT.publications(GROUP))
    member.client.create(batch.intent, encode_publication(Publication("d", "7-0-part.txt", "0")))
    with pytest.raises(DamagedSinkError, match="is not what this application wrote"):
        bench.publish(batch)
    assert not bench.visible()


def test_the_batches_beside_a_foreign_and_a_damaged_one_are_finished(
    bench: Bench, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against a real ZooKeeper; and the command says what it has left, with another status."""
    gone = bench.member()
    bench.publish(gone.plan())
    work, answer, batch = None, None, gone.plan()
    work = publication.publish(bench.place, batch, "0a")
    while not bench.left()[0]:
        answer = carry_out(work.send(answer), bench.keeper, bench.files, bench.stage(batch))
    foreign, unread = f"{gone.incarnation}-99", f"{gone.incarnation}-98"
    (bench.folder / "published.txt").write_text("")
    intent = encode_publication(Publication(bench.files.uri, "published.txt", docs.digest(b"")))
    gone.client.create(LAYOUT.publication(GROUP, foreign), intent)
    gone.client.create(LAYOUT.publication(GROUP, unread), b"junk")
    damaged = f"{gone.incarnation}-0"
    path = f"{docs.staging(GROUP)}/{gone.incarnation}/0-0a/{docs.MANIFEST}"
    gone.client.create(
        LAYOUT.publication(GROUP, damaged),
        encode_publication(Publication(bench.files.uri, path, "0" * 64)),
    )
    gone.leave()
    successor = bench.member()
    with caplog.at_level(logging.WARNING), pytest.raises(DamagedSinkError, match="gone or changed"):
        bench.recover(successor)
    (bench.folder / "published.txt").unlink()
    assert bench.visible() == bench.expected(2 * EACH)
    said = [r.getMessage() for r in caplog.records if r.name.startswith("consumer.spark")]
    assert [message.partition(" ")[0] for message in said] == [
        LAYOUT.publication(GROUP, node) for node in sorted((foreign, unread))
    ]
    assert set(bench.left()[0]) == {damaged, foreign, unread}
    assert bench.files.folders(docs.staging(GROUP)) == (str(gone.incarnation),), "it has damage"
    successor.client.delete(LAYOUT.publication(GROUP, damaged))
    arguments = ["--zookeeper", bench.hosts, "--group", GROUP, "--directory", str(bench.folder)]
    assert command.main(arguments) == 1
    said = capsys.readouterr()
    assert said.err.count("was left alone") == 2 and "2 are not now" in said.out


def test_a_replayed_plan_of_another_group_is_refused(bench: Bench) -> None:
    """A sink's staging folder, its intents and its offsets are those of the plan in Spark's log."""
    member = bench.member()
    ours = Plan(1, GROUP, bench.hosts, LAYOUT.name, member.name, member.incarnation)
    theirs = Plan(1, "victim", bench.hosts, LAYOUT.name, member.name, member.incarnation)
    path = LAYOUT.replayed_plan(GROUP, member.incarnation, 1)
    assert current(ours, bench.keeper) == ours
    for node, accepted in ((theirs, False), (ours, True)):
        if member.client.exists(path):
            member.client.delete(path)
        member.client.create(path, node.to_json().encode(), ephemeral=True, makepath=True)
        if accepted:
            assert current(ours, bench.keeper) == ours
        else:
            with pytest.raises(PlanError, match="one of the group 'victim'"):
                current(ours, bench.keeper)


def test_a_batch_of_a_group_with_any_name(tmp_path: Path) -> None:
    """Its folder and its manifest are found again."""
    for group in ("team:billing", "a b", "grüße"):
        batch = Batch(LAYOUT, group, "m", GONE, 3, (), "0b0e")
        folder = docs.attempt(batch, "0a")
        assert docs.attempt_of(group, batch.node, f"{folder}/{docs.MANIFEST}") == folder
