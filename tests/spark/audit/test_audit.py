"""The whole audit: what was planted is found and nothing else, both engines agree, and the command
line answers as it says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from consumer.spark.audit import command
from consumer.spark.audit.record_ranges import SearchPlan
from consumer.spark.audit.run import AuditOptions, SparkAudit, audit
from consumer.spark.audit.session import uri
from consumer.spark.audit.sorting import Order
from tests.bench.audit_world import Journals, Place, Shape, World, plant_in_records, records
from tests.verdict.test_engine import clean_run, write
from zkcoord.errors import ConfigurationError
from zkcoord.verdict.engine import judge_folder
from zkcoord.verdict.rules import Rule

ROOT = Path(__file__).parents[3]
EACH = 10
SMALL = Shape(160, 500, 50)
COMMAND_TIMEOUT_S = 1_200.0


def places(found: SparkAudit) -> dict[Rule, set[Place]]:
    """Where the audit found what."""
    by_rule: dict[Rule, set[Place]] = {rule: set() for rule in Rule}
    for finding in found.verdict.findings:
        by_rule[finding.rule].add((str(finding.partition), finding.first))
    return by_rule


def test_what_was_planted_in_journals_is_found_and_both_engines_agree(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = Journals(tmp_path, SMALL, list(Rule), EACH).write()
    found = audit(spark, AuditOptions(tmp_path, examples_max=10_000))
    assert found.order is Order.TIME
    assert places(found) == world.planted
    other = judge_folder(tmp_path)
    assert {rule: found.verdict.amount(rule) for rule in Rule} == {
        rule: other.amount(rule) for rule in Rule
    }
    assert [
        (r.partition, r.amounts, r.produced, r.delivered, r.excused, r.owners)
        for r in found.verdict.partitions
    ] == [
        (r.partition, r.amounts, r.produced, r.delivered, r.excused, r.owners)
        for r in other.partitions
    ]
    assert found.verdict.sentence == other.sentence


def test_hosts_whose_clocks_are_hours_apart(spark: SparkSession, tmp_path: Path) -> None:
    world = Journals(tmp_path, Shape(160, 500, 50, hosts=3), list(Rule), EACH).write()
    found = audit(spark, AuditOptions(tmp_path, examples_max=10_000))
    assert found.order is Order.ZOOKEEPER and found.processes.hosts == {
        "host-0",
        "host-1",
        "host-2",
    }
    assert places(found) == world.planted


def test_without_a_violation_nothing_is_found_though_clocks_are_hours_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    Journals(tmp_path, Shape(160, 50, 25, hosts=2), [], 0).write()
    assert audit(spark, AuditOptions(tmp_path)).verdict.sentence == "VERDICT: clean"


@pytest.mark.parametrize(
    "plan", [SearchPlan.EXACT, pytest.param(SearchPlan.SCREEN, marks=pytest.mark.nightly)]
)
def test_what_was_planted_in_records_is_found(
    spark: SparkSession, tmp_path: Path, plan: SearchPlan
) -> None:
    world = planted_records(spark, tmp_path, skewed=plan is SearchPlan.EXACT)
    found = audit(
        spark,
        AuditOptions(tmp_path / "journal", tmp_path / "records", plan=plan, examples_max=10_000),
    )
    assert places(found) == world.planted
    assert sum(report.found for report in found.verdict.partitions) == world.shape.records


def planted_records(spark: SparkSession, folder: Path, skewed: bool) -> World:
    """A journal with what only journals show, and records with losses and duplicates."""
    world = Journals(
        folder / "journal",
        Shape(160, 500, 50, skewed),
        [Rule.OWNED_TWICE, Rule.UNOWNED, Rule.OFFSET_BACK],
        EACH,
    ).write()
    plant_in_records(world, EACH)
    records(spark, world).write.parquet(uri(folder / "records"))
    return world


def test_a_run_of_the_demo(spark: SparkSession, tmp_path: Path) -> None:
    found = audit(spark, AuditOptions(write(tmp_path / "a run", clean_run())))
    assert found.verdict.clean and sum(report.excused for report in found.verdict.partitions) == 5
    assert [rebalance.duration_ms for rebalance in found.verdict.rebalances] == [
        40
    ] and found.verdict.unreadable == 0


def test_wrong_lines_are_counted_and_a_member_whose_lines_just_end_was_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = clean_run()
    del files["scenario/steps.jsonl"]
    files["consumers/c2.jsonl"] += [{"event": "assigned", "t": 3, "offsets": 5}, {"no": "event"}]
    files["coordinators/a/1-2.000001.jsonl"] += [{"t": 3_400, "kind": "lost", "records": 7}]
    with (write(tmp_path, files) / "consumers" / "c1.jsonl").open("a") as file:
        file.write('{"event": "records", "t": 5')
    found = audit(spark, AuditOptions(tmp_path))
    assert found.verdict.clean and sum(report.excused for report in found.verdict.partitions) == 5
    assert found.verdict.unreadable == 2 and found.processes.holes == 7, (
        "the torn line of the one that was killed is none of them"
    )
    assert (
        audit(spark, AuditOptions(tmp_path, exactly_once=True)).verdict.sentence
        == "VERDICT: not clean: 5 duplicated"
    )


def test_a_zombie_that_dies_before_it_can_say_what_it_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It stood still past its session, another began; it wakes, sees that its lease is over, and is
    killed: it lived, and held nothing. One that was handed something meanwhile did.
    """
    zombie = [
        {"event": "start", "t": 1, "host": "a"},
        {"event": "assigned", "t": 2, "offsets": {"t-0": 0}},
        {"event": "records", "t": 3, "count": 5, "ranges": {"t-0": [[0, 4, 5, 0]]}},
        {"event": "committed", "t": 4, "offsets": {"t-0": 5}},
    ]
    woken = {"event": "notice", "t": 20, "kind": "lease lapsed", "detail": {"held": 1}}
    handed = {"event": "records", "t": 21, "count": 5, "ranges": {"t-0": [[5, 9, 5, 0]]}}
    other = [
        {"event": "start", "t": 1, "host": "a"},
        {"event": "assigned", "t": 10, "offsets": {"t-0": 5}},
        {"event": "closed", "t": 30},
    ]
    for last, rules in ((woken, set()), (handed, {Rule.OWNED_TWICE})):
        write(tmp_path, {"consumers/zombie.jsonl": [*zombie, last], "consumers/other.jsonl": other})
        found = audit(spark, AuditOptions(tmp_path))
        assert {rule for rule in Rule if found.verdict.amount(rule)} == rules, (
            found.verdict.sentence
        )


def test_queries_whose_plans_tell_the_versions(spark: SparkSession, tmp_path: Path) -> None:
    """Journals of Spark applications on two hosts: claims tell no version, plans do; the clock of
    the second is behind.
    """

    def query(host: str, t: int, offset: int, version: int, planned: int) -> list[dict[str, Any]]:
        return [
            {"event": "start", "t": t, "host": host},
            {"event": "assigned", "t": t + 1, "offsets": {"t-0": offset}},
            {
                "event": "records",
                "t": t + 2,
                "count": 10,
                "ranges": {"t-0": [[offset, offset + 9, 10, 0]]},
                "orders": {"t-0": version},
            },
            {"event": "committed", "t": t + 3, "offsets": {"t-0": offset + 10}},
            {
                "event": "records",
                "t": t + 4,
                "count": 10,
                "ranges": {"t-0": [[offset + 10, offset + 19, 10, 0]]},
                "orders": {"t-0": planned},
            },
            {"event": "revoked", "t": t + 5, "positions": {"t-0": offset + 20}},
            {"event": "closed", "t": t + 6},
        ]

    idle = [
        {"event": "start", "t": 900, "host": "b"},
        {"event": "assigned", "t": 901, "offsets": {"t-0": 20}},
        {"event": "closed", "t": 902},
    ]
    for planned, sentence in ((3, "VERDICT: clean"), (5, "VERDICT: not clean: 1 owned twice")):
        write(
            tmp_path,
            {
                "consumers/first.jsonl": query("a", 1000, 0, 2, planned),
                "consumers/second.jsonl": query("b", 10, 20, 5, 6),
                "consumers/idle.jsonl": idle,
            },
        )
        found = audit(spark, AuditOptions(tmp_path))
        assert found.order is Order.ZOOKEEPER and found.verdict.sentence == sentence


def test_zookeepers_order_where_it_is_not_told_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="--order time"):
        audit(spark, AuditOptions(write(tmp_path, clean_run()), order=Order.ZOOKEEPER))


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "consumer.spark.audit", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
        env=environment,
    )


def test_the_command_says_what_is_wrong_and_where(tmp_path: Path) -> None:
    world = Journals(tmp_path, SMALL, [Rule.DUPLICATED], 3).write()
    answer = run("--journal", tmp_path, "--master", "local[1]", "--memory", "512m", "--json")
    assert answer.returncode == 1, answer.stderr
    told = json.loads(answer.stdout)
    assert (
        told["verdict"] == "VERDICT: not clean: 3 duplicated"
        and told["rules"]["duplicated"]["amount"] == 3
    )
    assert {
        (finding["partition"], finding["offset"]) for finding in told["findings"]
    } == world.planted[Rule.DUPLICATED]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "required: --journal"),
        (["--journal", "none"], "There is no folder none"),
        (["--journal", "."], "holds no consumers"),
        (["--journal", "j", "--records", "none"], "There is no none"),
        (["--journal", "j", "--plan", "best"], "invalid choice"),
        (["--journal", "j", "--examples", "0"], "invalid positive value"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(tmp_path, {"j/consumers/c1.jsonl": []})
    monkeypatch.chdir(tmp_path)
    try:
        status = command.main(words)
    except SystemExit as ended:
        status = ended.code
    said = capsys.readouterr().err
    assert status == 2 and sentence in said and said.count("\n") == 1, said
