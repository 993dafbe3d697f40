"""How a batch is published, finished by others, or cleaned away: what to do next, as generators
that yield effects and are sent their answers. Nothing here does anything, so that every order of
steps of several processes, each of which may die or stand still between any two, can be tried
(tests/spark/sink/test_model.py).

Publishing    stage -> manifest -> THE MULTI -> move each file -> delete the intent -> remove the
staging folder

* Before the multi nothing is visible, and nothing counts: another owner reads the records again.
* After it the batch counts, and whoever comes finishes it. Moves are atomic and never overwrite: a
  file is at its source or at its target, so all can be repeated, and by several at once.
* The intent goes after the last move, the staging folder after the intent. So a manifest that an
  intent names is there, unless another has finished meanwhile; then the intent is gone.

Recovering    who has staged or committed? -> who is registered? -> what have the others committed?
-> finish that -> remove their staging folders

* In this order, each read after a sync. Who is not registered, and was known before, is gone for
  good: a member that comes between two reads must not be taken for one that has left. Who is gone
  can commit nothing any more, so the intents that are read after that are all that it left.
* Intents of members that live are theirs. What they touch is nobody else's before they are gone: a
  partition is given up only between two batches.
* An intent, or a manifest, that no writer of that batch would have written is left where it is and
  named; nothing is moved or removed by it. It keeps nobody from the others' batches, and neither
  does one whose files are damaged.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Sequence
from typing import Any

from consumer.spark.sink import manifest as docs
from consumer.spark.sink.errors import DamagedSinkError, FencedBatchError, SinkError
from consumer.spark.sink.fence import (
    Batch,
    FenceDecision,
    commit_ops,
    judge,
    proof_ops,
    reads_of,
    seen_of,
    why_fenced,
)
from consumer.spark.sink.manifest import Manifest
from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.zk.port import (
    OPEN_ACL,
    AclEntry,
    Children,
    Committed,
    Create,
    Delete,
    GetChildren,
    GetData,
    MultiResult,
    Node,
    Op,
    Read,
    ReadAnswer,
    Rejected,
    ZkError,
)
from zkcoord.znodes import names
from zkcoord.znodes.codec import Publication, decode_publication, encode_publication
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.publication import incarnation_of, is_czxid

TRIES_MAX = 20


@value
class Look:
    """Sync, then read. Answered by a sequence of `ReadAnswer`."""

    reads: tuple[Read, ...]


@value
class Transact:
    """Send one multi, once. Answered by a `MultiResult`."""

    ops: tuple[Op, ...]


@value
class StageRows:
    """Write the batch's rows into this folder. Answered by the paths of the files, relative to
    it.
    """

    folder: str


@value
class Put:
    """Write a file, whole or not at all."""

    path: str
    data: bytes


@value
class Fetch:
    """Read a file. Answered by its bytes, None where there is none."""

    path: str


@value
class Move:
    """Rename a file, atomically, making the folders above the target, never over another file and
    never along a link. Answered by `MoveEnded`.
    """

    source: str
    target: str


class MoveEnded(enum.Enum):
    """How a move ended."""

    NOW = "moved now"
    BEFORE = "the source is gone and the target is there"
    NEITHER = "neither is there"
    REFUSED = "another file is at the target, or the source is no file"


@value
class Folders:
    """Names of what lies in a folder. Answered by a tuple, empty where there is no such folder."""

    path: str


@value
class Remove:
    """Remove a folder with all that is in it; nothing where there is none."""

    path: str


@value
class Leave:
    """Name an intent that is not acted upon."""

    # Its node.
    path: str
    # Why it is left alone.
    why: str


FilesEffect = StageRows | Put | Fetch | Move | Folders | Remove
Effect = Look | Transact | FilesEffect | Leave
Steps = Generator[Effect, Any, None]


@value
class SinkPlace:
    """A sink of one group."""

    layout: Layout
    # The group that writes there.
    group: str
    # Its directory, as intents name it.
    directory: str
    # The access list of the nodes that it makes.
    acl: tuple[AclEntry, ...] = OPEN_ACL


def publish(place: SinkPlace, batch: Batch, nonce: str) -> Steps:
    """Stage and publish a batch, unless it was published before. Raises `FencedBatchError`."""
    if not batch.ranges and (yield Fetch(docs.marker(batch))) is not None:
        return
    seen = seen_of(batch, (yield Look(reads_of(batch))))
    if judge(batch, seen, has_files=True) is FenceDecision.FENCED:
        raise FencedBatchError(f"batch {batch.number} is not published: {why_fenced(batch, seen)}")
    if not seen.intent:
        folder = docs.attempt(batch, nonce)
        staged: tuple[str, ...] = yield StageRows(folder)
        if not staged and not batch.ranges:
            yield Remove(folder)
            return
        intent = (yield from _write_manifest(place, batch, folder, staged)) if staged else None
        yield from _commit(place, batch, intent)
    yield from _finish_own(place, batch)


def check(batch: Batch) -> Generator[Effect, Any, bool]:
    """Prove through the quorum that the batch may still happen; False: it has happened. Raises
    `FencedBatchError`.
    """
    for _ in range(TRIES_MAX):
        result: MultiResult = yield Transact(tuple(proof_ops(batch)))
        if isinstance(result, Committed):
            return True
        seen = seen_of(batch, (yield Look(reads_of(batch))))
        decision = judge(batch, seen, has_files=False)
        if decision is FenceDecision.COMMITTED:
            return False
        if decision is FenceDecision.FENCED:
            raise FencedBatchError(
                f"batch {batch.number} is not written: {why_fenced(batch, seen)}"
            )
    raise SinkError(
        f"whether batch {batch.number} may be written is not known: ZooKeeper did not answer"
        f" {TRIES_MAX} times; look at its servers, then start the query again"
    )


def commit(place: SinkPlace, batch: Batch) -> Steps:
    """Advance the offsets of a batch whose rows are written. Raises `FencedBatchError`."""
    yield from _commit(place, batch, None)


def recover(place: SinkPlace, own: int) -> Steps:
    """Finish what departed members have committed, and remove what they have only staged. `own`:
    the incarnation of who does this (0: nobody's). Raises `DamagedSinkError`, after everything that
    is not damaged.
    """
    folders: tuple[str, ...] = yield Folders(docs.staging(place.group))
    known = {int(name) for name in folders if is_czxid(name)} | {
        incarnation_of(node) for node in (yield from _intents(place))
    }
    departed = known - (yield from _registered(place)) - {own, None}
    if not departed:
        return
    intents = yield from _intents(place)
    damage: list[DamagedSinkError] = []
    kept: set[int | None] = set()
    for node in sorted(intents):
        owner = incarnation_of(node)
        if owner not in departed:
            continue
        try:
            finished = yield from _finish(place, node, intents[node])
        except DamagedSinkError as error:
            damage.append(error)
            finished = False
        if not finished:
            kept.add(owner)
    for incarnation in sorted(filter(None, departed - kept)):
        yield Remove(f"{docs.staging(place.group)}/{incarnation}")
    if damage:
        more = f" (and {len(damage) - 1} more like this)" if len(damage) > 1 else ""
        raise DamagedSinkError(f"{damage[0]}{more}")


def _write_manifest(
    place: SinkPlace, batch: Batch, folder: str, staged: tuple[str, ...]
) -> Generator[Effect, Any, bytes]:
    """The manifest, beside the files; the intent that names it."""
    manifest = docs.manifest_of(batch, folder, staged)
    if not batch.ranges:
        yield Put(f"{folder}/{docs.MARKER}", b"")
        manifest = Manifest(
            manifest.batch, (), (*manifest.files, (f"{folder}/{docs.MARKER}", docs.marker(batch)))
        )
    data, path = docs.encode_manifest(manifest), f"{folder}/{docs.MANIFEST}"
    yield Put(path, data)
    return encode_publication(Publication(place.directory, path, docs.digest(data)))


def _commit(place: SinkPlace, batch: Batch, intent: bytes | None) -> Steps:
    """The multi, until its outcome is known."""
    ops = tuple(commit_ops(batch, intent, place.acl))
    for _ in range(TRIES_MAX):
        result: MultiResult = yield Transact(ops)
        if isinstance(result, Committed):
            return
        seen = seen_of(batch, (yield Look(reads_of(batch))))
        decision = judge(batch, seen, has_files=intent is not None)
        if decision is FenceDecision.COMMITTED:
            return
        if decision is FenceDecision.FENCED:
            raise FencedBatchError(
                f"batch {batch.number} is not published: {why_fenced(batch, seen)}"
            )
        if isinstance(result, Rejected):
            yield from _make_way(place, batch, ops[result.index], result.error)
    raise SinkError(
        f"batch {batch.number} could not be committed: ZooKeeper did not answer {TRIES_MAX} times;"
        " look at its servers, then start the query again"
    )


def _make_way(place: SinkPlace, batch: Batch, op: Op, error: ZkError) -> Steps:
    """After a refusal that is no fence: the intents' parent is missing, or we are not allowed."""
    if not (isinstance(op, Create) and error is ZkError.NO_NODE):
        if error not in (ZkError.NO_NODE, ZkError.BAD_VERSION, ZkError.NODE_EXISTS):
            raise SinkError(
                f"ZooKeeper refuses to write {op.path} ({error.value}): give this application"
                " credentials that may"
            )
        return
    parent = place.layout.publications(batch.group)
    made: MultiResult = yield Transact((Create(parent, b"", acl=place.acl),))
    if isinstance(made, Rejected) and made.error is not ZkError.NODE_EXISTS:
        # with roles it is the coordinator's to make, and whether it is there is not said
        (there,) = yield Look((GetData(parent),))
        if isinstance(there, Node):
            return
        raise SinkError(
            f"ZooKeeper refuses to make {parent} ({made.error.value}): give this application"
            " credentials that may"
        )


def _finish_own(place: SinkPlace, batch: Batch) -> Steps:
    (answer,) = yield Look((GetData(batch.intent),))
    if isinstance(answer, Node) and not (yield from _finish(place, batch.node, answer.data)):
        raise DamagedSinkError(
            f"batch {batch.number} is not visible: {batch.intent} in ZooKeeper is not what this"
            " application wrote; see who wrote it, delete it by hand, then start the query again"
        )


def _finish(place: SinkPlace, node: str, data: bytes) -> Generator[Effect, Any, bool]:
    """Make a committed batch visible, whoever else is at it; False where it is another sink's of
    this group, whose directory this is not, or nothing that a sink has written. Raises
    `DamagedSinkError` where what was staged is not what was committed.
    """
    path = place.layout.publication(place.group, node)
    intent = decode_publication(node, data)
    if isinstance(intent, Malformed):
        yield Leave(path, f"it cannot be read ({intent.reason})")
        return False
    folder = docs.attempt_of(place.group, node, intent.manifest)
    if folder is None:
        yield Leave(
            path,
            f"its manifest {names.shown(intent.manifest)} is not in the batch's staging folder",
        )
        return False
    found: bytes | None = yield Fetch(intent.manifest)
    manifest = (
        docs.decode_manifest(node, found)
        if found is not None and docs.digest(found) == intent.digest
        else None
    )
    moved = [MoveEnded.NEITHER]
    if manifest is not None:
        why = docs.why_unfit(manifest, place.group, node, folder)
        if why is not None:
            yield Leave(path, f"of its manifest {names.shown(intent.manifest)}: {why}")
            return False
        assert isinstance(manifest, Manifest)
        moved = []
        for source, target in manifest.files:
            moved.append((yield Move(source, target)))
            if moved[-1] is MoveEnded.REFUSED:
                yield Leave(path, f"{names.shown(target)} is there, or what is staged is no file")
                return False
    if MoveEnded.NEITHER in moved:
        (answer,) = yield Look((GetData(path),))
        if not isinstance(answer, Node):
            return True  # another has finished it, and what it held may have been taken away since
        if found is None and intent.directory != place.directory:
            return False
        raise DamagedSinkError(
            f"batch {names.shown(node)} of the group {place.group} is committed, but what was"
            f" staged in {place.directory}/{folder} is gone or changed: restore it, or accept the"
            f" loss and delete {path} in ZooKeeper"
        )
    yield from _delete(path)
    yield Remove(folder)
    return True


def _delete(path: str) -> Steps:
    for _ in range(TRIES_MAX):
        result: MultiResult = yield Transact((Delete(path),))
        if isinstance(result, Committed) or (
            isinstance(result, Rejected) and result.error is ZkError.NO_NODE
        ):
            return
        if isinstance(result, Rejected):
            raise SinkError(
                f"ZooKeeper refuses to delete {path} ({result.error.value}): give this application"
                " credentials that may"
            )
    raise SinkError(
        f"{path} could not be deleted: ZooKeeper did not answer {TRIES_MAX} times; look at its"
        " servers, then start the query again"
    )


def _registered(place: SinkPlace) -> Generator[Effect, Any, set[int]]:
    """The incarnations of all who are registered."""
    ids = place.layout.ids(place.group)
    listed: Sequence[ReadAnswer] = yield Look((GetChildren(ids),))
    members = _names(place, listed[0], ids)
    answers: Sequence[ReadAnswer] = yield Look(
        tuple(GetData(place.layout.registration(place.group, name)) for name in members)
    )
    return {answer.stat.czxid for answer in answers if isinstance(answer, Node)}


def _intents(place: SinkPlace) -> Generator[Effect, Any, dict[str, bytes]]:
    """The group's intents."""
    parent = place.layout.publications(place.group)
    listed: Sequence[ReadAnswer] = yield Look((GetChildren(parent),))
    nodes = _names(place, listed[0], parent)
    answers: Sequence[ReadAnswer] = yield Look(
        tuple(GetData(place.layout.publication(place.group, node)) for node in nodes)
    )
    return {
        node: answer.data
        for node, answer in zip(nodes, answers, strict=False)
        if isinstance(answer, Node)
    }


def _names(place: SinkPlace, answer: ReadAnswer, path: str) -> tuple[str, ...]:
    """A node's children; none where there is no node."""
    if isinstance(answer, Children):
        return answer.names
    if isinstance(answer, Node):
        raise AssertionError(path)
    error = getattr(answer, "error", None)
    if error is not None:
        raise SinkError(
            f"ZooKeeper does not let this application read {path} ({error.value}): give it"
            " credentials that may"
        )
    return ()
