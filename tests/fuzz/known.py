"""Findings that are not mended yet: each with the smallest input that shows it, and what is wrong.

`test_found.py` expects each to fail, strictly: whoever mends one has to take its row away, and the
file stays.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownFinding:
    """`file`, below `found/`, begins with the parser's name; a * of `signature` is any text."""

    file: str
    signature: str
    reason: str


DEEP = "JSON that is nested a thousand deep is a RecursionError, which is not caught"
NUMBERS = "a number that does not fit is an OverflowError, which is not caught"
JOINED = "a broker's answer with a null in the place of a list is a TypeError, no BadAnswerError"
LONG = (
    "kafka-python's decoder makes an OverflowError of a length of more than five bytes, and BAD of"
    " consumer/gateway/frames.py lacks it"
)
ROWS = "ends the audit instead of being counted as a line that cannot be read"
KNOWN: tuple[KnownFinding, ...] = (
    KnownFinding(
        "handover/empty-tls.bin",
        "IndexError in zkcoord/guardian/handover.py (_parse_watch)",
        "`parse` never raises, it says, and `tls=` without a value is an IndexError: it ends a"
        " guardian that serves several processes (GuardServer.run), for all of them",
    ),
    KnownFinding(
        "handover-inbox/empty-tls.bin",
        "IndexError in zkcoord/guardian/handover.py (_parse_watch)",
        "the same, as it comes to a guardian",
    ),
    KnownFinding(
        "connect-string/long-port.bin",
        "Broken in tests/fuzz/parsers/ensemble.py (hosts)",
        "of a port only the first six digits are looked at: 000001000000000 is taken for one",
    ),
    KnownFinding(
        "spark-plan/deep.bin",
        "RecursionError in consumer/spark/plan.py (parse_plan)",
        f"parse_plan raises PlanError, it says: {DEEP}",
    ),
    KnownFinding(
        "what-if/deep.bin",
        "RecursionError in zkcoord/replay/what_if.py (_value)",
        f"zkcoord replay --with: {DEEP}",
    ),
    KnownFinding(
        "verdict-lines/deep.bin",
        "RecursionError in zkcoord/verdict/engine.py (facts_of)",
        f"{DEEP}: the verdict ends instead of counting the line",
    ),
    KnownFinding(
        "verdict-lines/infinite.bin",
        "OverflowError in zkcoord/verdict/lines.py (*)",
        f"1e999 is infinite: {NUMBERS}",
    ),
    KnownFinding(
        "audit-lines/deep.bin",
        "RecursionError in consumer/spark/audit/facts.py (_of_line)",
        f"{DEEP}: it {ROWS}",
    ),
    KnownFinding(
        "audit-lines/infinite.bin",
        "OverflowError in zkcoord/verdict/lines.py (*)",
        f"1e999 is infinite, and {ROWS}",
    ),
    KnownFinding(
        "audit-lines/late.bin",
        "OverflowError in consumer/spark/audit/facts.py (<listcomp>)",
        f"a time of more than 64 bits {ROWS}",
    ),
    KnownFinding(
        "audit-lines/many.bin",
        "ArrowInvalid in consumer/spark/audit/facts.py (<listcomp>)",
        f"a partition's number of more than 32 bits {ROWS}",
    ),
    KnownFinding(
        "migration-journal/deep.bin",
        "RecursionError in migrations/journal.py (_records)",
        f"{DEEP}: zkcoord migrate ends with a trace instead of saying that the journal is damaged",
    ),
    KnownFinding(
        "untold-outcome/late.bin",
        "OverflowError in zkcoord/admin/offsets/time_spec.py (shown_time)",
        "a file of an earlier reset with a time beyond the year 9999 stands in the way of the next",
    ),
    KnownFinding(
        "console-request/origin.bin",
        "ValueError in zkcoord/console/http/acting.py (_comes_from_here)",
        "an Origin such as //[ is a ValueError of urlsplit: answered 500 instead of 403",
    ),
    KnownFinding(
        "broker-answer/tags.bin",
        "AssertionError in consumer/gateway/relay/rewriting.py (_api_versions)",
        "kafka-python asserts that there are no tagged fields in a tagged one, and BAD lacks"
        " AssertionError: no BadAnswerError, but an error of the event loop",
    ),
    KnownFinding(
        "broker-beside-ours/null.bin",
        "TypeError in consumer/gateway/tooling/both_kinds.py (joined)",
        JOINED,
    ),
    KnownFinding(
        "gateway-address/long-port.bin",
        "ValueError in consumer/gateway/cli.py (address)",
        "a port of 5,000 digits is a ValueError of int instead of one sentence",
    ),
    KnownFinding(
        "child-line/deep.bin",
        "RecursionError in zkcoord/demo/processes.py (parsed)",
        f"the demo, of its own children: {DEEP}",
    ),
    KnownFinding(
        "child-line/long-version.bin",
        "ValueError in zkcoord/stack/java.py (parse_major)",
        "a Java that says a version of 5,000 digits is a ValueError instead of no version",
    ),
    KnownFinding(
        "audit-lines/infinite-offset.bin",
        "OverflowError in zkcoord/verdict/lines.py (*)",
        f"an offset of 1e900 {ROWS}",
    ),
    KnownFinding(
        "broker-answer/long.bin",
        "OverflowError in consumer/gateway/relay/rewriting.py (_decoded)",
        f"{LONG}: no BadAnswerError, but an error of the event loop",
    ),
    KnownFinding(
        "broker-beside-ours/long.bin",
        "OverflowError in consumer/gateway/tooling/both_kinds.py (joined)",
        f"{LONG}: no BadAnswerError",
    ),
    KnownFinding(
        "broker-rights/long.bin",
        "OverflowError in consumer/gateway/relay/login.py (answered)",
        f"{LONG}: an answer to a login that cannot be read says nothing, it says",
    ),
    KnownFinding(
        "gateway-request/many-parts.bin",
        "Overworked",
        "25 bytes say that they have 12,336 parts of a fixed size, and `skim` goes through all of"
        " them, 40,000 lines of Python, before it looks whether the request has ended (at most"
        " PARTS_MAX of them)",
    ),
    KnownFinding(
        "spark-options/separator.bin",
        "ValueError in consumer/spark/option_values.py (count)",
        "a number with U+001D behind it: str.strip takes that away, and int does not",
    ),
)
