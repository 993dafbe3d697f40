"""`zkcoord replay --with`: the model repeats what was recorded when nothing is changed, and tells
what other options would have done.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.replay.incidents import of_lines, of_seed, of_transcript, written
from zkcoord.cli.main import main
from zkcoord.core.options import CoordinatorOptions
from zkcoord.errors import ConfigurationError
from zkcoord.replay.replay import Recording
from zkcoord.replay.what_if import Comparison, compare, parse, text, values

JOINS = """\
elected 3
topic t 12
ready
member g a@1 t:1 assignors=sticky,range
tick 10
settle

wait 100
member g b@2 t:1 assignors=sticky,range
tick 100
settle

wait 100
member g c@3 t:1 assignors=sticky,range
tick 400
settle

wait 5000
gone g b
tick 10
settle

tick 1000
"""


ASKED = """\
options external_assignors=racks
elected 3
topic t 4
ready
member g a@1 t:1 assignors=racks
member g b@2 t:1 assignors=racks
tick 10
wait 50
answer g last t-0=b t-1=b t-2=a t-3=a
wait 10
settle

tick 1000
"""


def compared(lines: list[bytes], *pairs: str) -> Comparison:
    recording = Recording("test", lines)
    return compare(recording, parse(recording.options, pairs))


def test_unchanged_the_model_repeats_the_recording() -> None:
    found = compared(of_lines(JOINS), "debounce_ms=10")
    (group,) = values(found, None).values()
    assert (
        group["recorded"]["generations"] >= 3
        and group["recorded"]["starts"] >= 3
        and group["recorded"]["stops"]
    )
    for of in ("model_as_it_was", "model_what_if"):
        assert {k: v for k, v in group[of].items() if k != "durations_ms"} == {
            k: v for k, v in group["recorded"].items() if k != "durations_ms"
        }


def test_a_longer_window_makes_one_generation_of_three() -> None:
    (group,) = values(
        compared(of_lines(JOINS), "debounce_ms=1000", "debounce_storm_ms=1000"), None
    ).values()
    assert group["model_as_it_was"]["generations"] > group["model_what_if"]["generations"]
    assert (
        group["model_what_if"]["partitions_started"]
        < group["model_as_it_was"]["partitions_started"]
    )


def test_another_assignor_moves_more() -> None:
    (group,) = values(compared(of_lines(JOINS), "assignor=roundrobin"), None).values()
    assert (
        group["model_what_if"]["partitions_started"]
        > group["model_as_it_was"]["partitions_started"]
        == group["recorded"]["partitions_started"]
    )


def test_a_member_that_was_evicted_stays_silent() -> None:
    lines = of_transcript("eviction")
    (group,) = values(compared(lines, "debounce_ms=10"), None).values()
    assert group["recorded"]["evictions"] == group["model_what_if"]["evictions"] == 1
    (group,) = values(compared(of_lines(JOINS), "debounce_ms=10"), None).values()
    assert group["model_what_if"]["evictions"] == 0


def test_custom_assignors_answer_as_recorded_or_not_at_all() -> None:
    found = compared(of_lines(ASKED), "channel_orphan_ms=60001")
    (group,) = values(found, None).values()
    assert (
        found.unanswered == 0
        and group["model_what_if"]["partitions_started"]
        == group["recorded"]["partitions_started"]
        == 4
    )
    other = compared(of_lines(ASKED), "owner_path_prefix_bytes=65")
    assert other.unanswered > 0 and "--with assignor=" in text(other, None), (
        "another question: its answer is not known"
    )
    assert (
        compared(of_lines(ASKED), "owner_path_prefix_bytes=65", "assignor=sticky").unanswered == 0
    )


WORLDS = range(1, 7)


def test_the_model_is_near_a_world_full_of_faults() -> None:
    """Not equal: members that are paused answer late now and soon then, and one world may differ
    by half. But over some of them a model that lost its way would be far off.
    """
    recorded = modelled = 0
    for recording in [one for seed in WORLDS for one in of_seed(seed)]:
        for group in values(compare(recording, parse(recording.options, [])), None).values():
            recorded += group["recorded"]["partitions_started"]
            modelled += group["model_as_it_was"]["partitions_started"]
    assert recorded > 20 and abs(recorded - modelled) <= recorded // 4


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, of_lines(JOINS)))
    assert main(["replay", path, "--with", "assignor=range", "--with", "debounce-ms=0"]) == 0
    out = capsys.readouterr().out
    assert (
        "what if assignor=range, debounce-ms=0" in out
        and "MODEL, WHAT IF" in out
        and "The model: " in out
        and "g        generations" in out
    )
    assert main(["replay", path, "--with", "debounce_ms=0", "--json", "--group", "g"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["groups"]["g"]) == {"recorded", "model_as_it_was", "model_what_if"} and found[
        "with"
    ] == ["debounce_ms=0"]
    assert (
        main(["replay", path, "--with", "debounce_ms=0", "--to-script", str(tmp_path / "x")]) == 2
    )


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("debounce=1", "write debounce_ms=VALUE"),
        ("debounce_ms", "names no option"),
        ("debounce_ms=-1", "negative"),
        ("debounce_ms=soon", "whole number"),
        ("debounce_ms=true", "whole number"),
        ("assignor=stiky", "write range or roundrobin or sticky"),
        ("zzz=1", "NAME=VALUE"),
    ],
)
def test_an_option_that_is_none_is_refused_in_a_sentence(pair: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(CoordinatorOptions(), [pair])
    assert said in str(refused.value)
