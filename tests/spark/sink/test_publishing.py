"""Publishing against a real ZooKeeper and a real directory, without Spark: rows are text files.
Members are sessions that write what the protocol says; what of them writes through the sink is what
ships.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from consumer.spark.sink import manifest as docs
from consumer.spark.sink import publication
from consumer.spark.sink.effects import Keeper, carry_out, perform
from consumer.spark.sink.errors import DamagedSinkError, FencedBatchError
from consumer.spark.sink.fence import Batch
from consumer.spark.sink.files import LocalFiles
from tests.harness.proxy import Op, Proxy
from tests.spark.sink.bench import EACH, GROUP, LAYOUT, PARTITIONS, SESSION_MS, Bench, Member
from zkcoord.zk.options import ZkOptions


def test_a_batch_is_visible_once_it_counts(bench: Bench) -> None:
    member = bench.member()
    for end in (EACH, 2 * EACH):
        batch = member.plan()
        bench.publish(batch)
        assert bench.visible() == bench.expected(end)
        assert [int(member.client.get(LAYOUT.offset(GROUP, tp))[0]) for tp in PARTITIONS] == [
            end,
            end,
        ]
        assert all(
            path.rpartition("/")[2].startswith(f"{member.incarnation}-")
            for path in bench.files.written("")
        )
    assert bench.left() == ([], (str(member.incarnation),))
    bench.recover(member)
    assert bench.files.folders(docs.staging(GROUP)) == (str(member.incarnation),), (
        "its own folder is not for it to clean"
    )


def test_who_was_replaced_publishes_nothing(bench: Bench) -> None:
    zombie = bench.member()
    late = zombie.plan()
    zombie.leave()
    successor = bench.member()
    with pytest.raises(FencedBatchError, match="not registered any more"):
        bench.publish(late)
    assert not bench.visible()
    bench.publish(successor.plan())
    assert bench.visible() == bench.expected(EACH)


def test_a_partition_that_changed_hands_fences_the_whole_batch(bench: Bench) -> None:
    """The registration lives; one partition was claimed anew."""
    member = bench.member()
    batch = member.plan()
    path = LAYOUT.offset(GROUP, PARTITIONS[1])
    member.client.set(path, member.client.get(path)[0])
    with pytest.raises(FencedBatchError, match="orders-1 of the group billing changed hands"):
        bench.publish(batch)
    assert not bench.visible()
    assert member.client.get(LAYOUT.offset(GROUP, PARTITIONS[0]))[0] == b"0"


@pytest.mark.parametrize("taken_over", [False, True])
def test_the_fence_holds_also_between_look_and_multi(bench: Bench, taken_over: bool) -> None:
    """Everything was in order when it looked; the session ends while it stages, and nobody else has
    claimed anything yet, or somebody has.
    """
    zombie = bench.member()
    bench.publish(zombie.plan())
    batch = zombie.plan()

    def stage(folder: str) -> Sequence[str]:
        found = bench.stage(batch)(folder)
        zombie.leave()
        if taken_over:
            bench.member()
        return found

    with pytest.raises(FencedBatchError, match="not registered any more"):
        perform(publication.publish(bench.place, batch, "0b"), bench.keeper, bench.files, stage)
    successor = bench.members[-1] if taken_over else bench.member()
    assert bench.files.folders(docs.staging(GROUP)) == (str(zombie.incarnation),)
    bench.recover(successor)
    assert bench.visible() == bench.expected(EACH) and not bench.files.folders(docs.staging(GROUP))


def test_a_claim_between_look_and_multi_fences_who_is_still_registered(bench: Bench) -> None:
    member = bench.member()
    bench.publish(member.plan())
    batch = member.plan()
    path = LAYOUT.offset(GROUP, PARTITIONS[1])

    def stage(folder: str) -> Sequence[str]:
        member.client.set(path, member.client.get(path)[0])
        return bench.stage(batch)(folder)

    with pytest.raises(FencedBatchError, match="orders-1 of the group billing changed hands"):
        perform(publication.publish(bench.place, batch, "0b"), bench.keeper, bench.files, stage)
    assert bench.visible() == bench.expected(EACH)


@pytest.mark.parametrize("count", range(20))
def test_a_process_that_dies_after_any_step_leaves_nothing_half_done(
    bench: Bench, count: int
) -> None:
    """Its successor finishes or discards it, and reads on from where the group stands."""
    first = bench.member()
    bench.publish(first.plan())
    batch = first.plan()
    work = publication.publish(bench.place, batch, "0b")
    ended = not bench.part(work, batch, count)
    first.leave()
    second = bench.member()
    bench.recover(second)
    committed = int(second.client.get(LAYOUT.offset(GROUP, PARTITIONS[0]))[0])
    assert bench.visible() == bench.expected(committed)
    assert bench.left() == ([], ())
    bench.publish(second.plan())
    assert bench.visible() == bench.expected(committed + EACH)
    assert ended or count < 19, "there are more steps than are tried"


@pytest.mark.parametrize("count", range(12))
def test_recovery_may_itself_be_interrupted_and_repeated(bench: Bench, count: int) -> None:
    first = bench.member()
    batch = first.plan()
    work = publication.publish(bench.place, batch, "0b")
    effect = next(work)
    while not (isinstance(effect, publication.Move)):  # committed, nothing moved
        effect = work.send(carry_out(effect, bench.keeper, bench.files, bench.stage(batch)))
    first.leave()
    second = bench.member()
    bench.part(publication.recover(bench.place, second.incarnation), batch, count)
    bench.recover(second)
    assert bench.visible() == bench.expected(EACH)
    assert bench.left() == ([], ())


def test_what_living_members_stage_is_left_alone(bench: Bench) -> None:
    first = bench.member()
    bench.publish(first.plan())
    batch = first.plan()
    work = publication.publish(bench.place, batch, "0b")
    effect = next(work)
    while not isinstance(effect, publication.Transact):  # staged, not committed
        effect = work.send(carry_out(effect, bench.keeper, bench.files, bench.stage(batch)))
    other = Member(bench.hosts, "other")
    bench.members.append(other)
    bench.recover(other)
    assert bench.files.folders(docs.staging(GROUP)) == (str(first.incarnation),)
    answer = carry_out(effect, bench.keeper, bench.files, None)
    bench.recover(other)
    assert bench.left()[0] == [batch.node] and bench.visible() == bench.expected(EACH), (
        "what it has committed is its own to finish while it lives"
    )
    with pytest.raises(StopIteration):
        while True:
            answer = carry_out(work.send(answer), bench.keeper, bench.files, None)
    assert bench.visible() == bench.expected(2 * EACH)


def test_a_lost_answer_is_looked_up(bench: Bench, zk_proxy: Proxy) -> None:
    """Of the multi that commits, and of each other one: the proxy swallows it and cuts. It
    happened, and happens once.
    """
    member = bench.member()
    keeper = Keeper(
        ZkOptions(
            zk_proxy.address + "/" + bench.hosts.partition("/")[2], session_timeout_ms=SESSION_MS
        )
    )
    for end in (EACH, 2 * EACH, 3 * EACH):
        fault = zk_proxy.swallow_replies(2, [Op.MULTI])
        bench.publish(member.plan(), keeper)
        assert fault.fired == 2
        assert bench.visible() == bench.expected(end)
    for end in (4 * EACH, 5 * EACH):
        fault = zk_proxy.drop_requests(2, [Op.MULTI])
        bench.publish(member.plan(), keeper)
        assert fault.fired == 2
        assert bench.visible() == bench.expected(end)
    keeper.close()
    assert bench.left()[0] == []


def test_what_was_committed_and_is_gone_is_said(bench: Bench) -> None:
    first = bench.member()
    batch = first.plan()
    work = publication.publish(bench.place, batch, "0b")
    effect = next(work)
    while not isinstance(effect, publication.Move):
        effect = work.send(carry_out(effect, bench.keeper, bench.files, bench.stage(batch)))
    first.leave()
    second = bench.member()
    path = bench.folder / docs.attempt(batch, "0b") / docs.MANIFEST
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"orders", b"others"))
    with pytest.raises(
        DamagedSinkError,
        match=f"batch '{batch.node}' .* is committed, but what was staged .* is gone or changed",
    ):
        bench.recover(second)
    path.write_bytes(whole)
    bench.recover(second)
    assert bench.visible() == bench.expected(EACH)


def test_two_directories_of_one_group(bench: Bench, tmp_path: Path) -> None:
    """An intent of another directory is left for those who write there."""
    first = bench.member()
    batch = first.plan()
    work = publication.publish(bench.place, batch, "0b")
    effect = next(work)
    while not isinstance(effect, publication.Move):
        effect = work.send(carry_out(effect, bench.keeper, bench.files, bench.stage(batch)))
    first.leave()
    second = bench.member()
    elsewhere = LocalFiles(tmp_path / "elsewhere")
    perform(
        publication.recover(
            publication.SinkPlace(LAYOUT, GROUP, elsewhere.uri), second.incarnation
        ),
        bench.keeper,
        elsewhere,
    )
    assert bench.left()[0] == [batch.node]
    bench.recover(second)
    assert bench.visible() == bench.expected(EACH)


def test_a_batch_without_files_and_one_without_ranges(bench: Bench) -> None:
    """Records that lead to no rows count all the same; rows without records are published once for
    a query and a batch.
    """
    member = bench.member()
    perform(
        publication.publish(bench.place, member.plan(), "0a"),
        bench.keeper,
        bench.files,
        lambda folder: (),
    )
    assert member.client.get(LAYOUT.offset(GROUP, PARTITIONS[0]))[0] == b"%d" % EACH
    empty = Batch(LAYOUT, GROUP, member.name, member.incarnation, 7, (), "query")

    def stage(folder: str) -> Sequence[str]:
        (bench.folder / folder).mkdir(parents=True)
        (bench.folder / folder / "part-0.parquet").write_text("window:1")
        return ("part-0.parquet",)

    for nonce in ("0a", "0b"):
        perform(publication.publish(bench.place, empty, nonce), bench.keeper, bench.files, stage)
        assert bench.visible() == Counter({"window:1": 1})


def test_the_general_form_is_called_for_what_may_still_be_written(bench: Bench) -> None:
    member = bench.member()
    batch = member.plan()
    assert perform(publication.check(batch), bench.keeper)
    perform(publication.commit(bench.place, batch), bench.keeper)
    assert member.client.get(LAYOUT.offset(GROUP, PARTITIONS[0]))[0] == b"%d" % EACH
    assert not perform(publication.check(batch), bench.keeper), "it has happened"
    following = member.plan()
    member.leave()
    bench.member()
    with pytest.raises(FencedBatchError, match="not written: the member m0"):
        perform(publication.check(following), bench.keeper)
    with pytest.raises(FencedBatchError, match="not published: the member m0"):
        perform(publication.commit(bench.place, following), bench.keeper)


def test_documents_name_nothing_outside(bench: Bench) -> None:
    good = {"version": 1, "batch": "1-1", "ranges": [["t", 0, 0, 1]], "files": [["a/b", "c"]]}
    assert isinstance(docs.decode_manifest("1-1", json.dumps(good).encode()), docs.Manifest)
    for bad in ("/etc/passwd", "../x", "a//b", "", "a/../b", "a\0b", 7, None):
        for move in ([bad, "c"], ["a", bad]):
            assert not isinstance(
                docs.decode_manifest("1-1", json.dumps({**good, "files": [move]}).encode()),
                docs.Manifest,
            ), move
    for key, value in (
        ("ranges", [["t", 0, 0]]),
        ("ranges", [["t", 0, 0, "1"]]),
        ("files", {}),
        ("batch", 7),
        ("version", 2),
    ):
        assert not isinstance(
            docs.decode_manifest("1-1", json.dumps({**good, key: value}).encode()), docs.Manifest
        ), key
