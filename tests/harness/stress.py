"""The suites of the lease and of the data path, many times over, while Python changes threads as
often as it can:

    python -m tests.harness.stress [--times 200]

Each test runs `--times` times in one process whose switch interval is a microsecond instead of
five milliseconds: a value that is written in two steps, or read twice, is seen between them. Left
out are the properties of buffers, which one thread tests.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import pytest

SWITCH_INTERVAL_S = 1e-6
TIMES = 200
SUITES = (
    "tests/consumer/member/test_lease_threads.py",
    "tests/consumer/member/test_leases.py",
    "tests/consumer/assignment",
    "tests/consumer/fetch/test_librdkafka_fetcher.py",
    "tests/consumer/fetch/test_record_iterator.py",
    "tests/consumer/fetch/test_validating.py",
    "tests/consumer/api",
)


class Stress:
    """Repeats each test, and has threads change often."""

    def __init__(self, times: int) -> None:
        self.times = times

    @pytest.fixture(autouse=True)
    def _round(self, request: pytest.FixtureRequest) -> int:
        """Which of the rounds it is."""
        number: int = request.param
        return number

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Each test once a round."""
        metafunc.fixturenames.append("_round")
        metafunc.parametrize("_round", range(self.times), indirect=True, ids=lambda n: f"round{n}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run; pytest's exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.stress", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--times", type=int, default=TIMES, help=f"rounds (default: {TIMES})")
    args = parser.parse_args(argv)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return int(pytest.main(["-q", "-p", "no:cacheprovider", *SUITES], plugins=[Stress(args.times)]))


if __name__ == "__main__":
    raise SystemExit(main())
