"""`zkcoord.consumer` and `zkcoord.migrations`: the packages beside under names of ours, whatever
the application calls its own modules.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_structure import product
from tests.test_tidy import FILES
from zkcoord.beside import NAMES

ROOT = Path(__file__).parents[1]


def run(folder: Path, *arguments: str) -> str:
    """What Python prints in a folder that comes first in its path."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A project with a script `consumer.py` and a package `migrations`."""
    (tmp_path / "consumer.py").write_text("MINE = 'a script'\n")
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "__init__.py").write_text("MINE = 'a package'\n")
    return tmp_path


SAME = """
import zkcoord.consumer, zkcoord.migrations, consumer, migrations
import zkcoord.consumer.errors, zkcoord.migrations.model
import consumer.errors, migrations.model
from zkcoord.consumer.spark.sink import fence
import consumer.spark.sink.fence
assert zkcoord.consumer is consumer and zkcoord.migrations is migrations
assert zkcoord.consumer.errors is consumer.errors
assert zkcoord.migrations.model is migrations.model
assert fence is consumer.spark.sink.fence
assert consumer.errors.__spec__.name == consumer.errors.__name__ == "consumer.errors"
assert zkcoord.consumer.KafkaConsumer is consumer.KafkaConsumer
"""


@pytest.mark.parametrize("first", ["", "import consumer.errors, migrations.model\n"])
def test_both_names_are_the_same_modules(tmp_path: Path, first: str) -> None:
    """Whichever is imported first."""
    run(tmp_path, "-c", first + SAME)


APART = """
from zkcoord.consumer import ConsumerRebalanceListener, KafkaConsumer, NotOwnedError
from zkcoord.consumer.streams.connector import WhiteList
import zkcoord.consumer.options
import zkcoord.consumer.spark.decode.engine_c
import zkcoord.migrations.cli
import consumer, migrations
assert (consumer.MINE, migrations.MINE) == ("a script", "a package")
assert KafkaConsumer.__module__ == "zkcoord.consumer.api.kafka_consumer"
import sys
below = [m for m in sys.modules if m.split(".")[0] in ("consumer", "migrations")]
assert sorted(below) == ["consumer", "migrations"], below
zkcoord.consumer.spark.decode.engine_c.load()
"""


@pytest.mark.parametrize("first", ["", "import consumer, migrations\n"])
def test_an_application_may_have_modules_of_these_names(theirs: Path, first: str) -> None:
    """Imported before ours, or after: both are there, and each is whole."""
    run(theirs, "-c", first + APART)


def test_a_script_of_that_name_may_use_it(tmp_path: Path) -> None:
    (tmp_path / "consumer.py").write_text(
        "from zkcoord.consumer import KafkaConsumer\nprint(KafkaConsumer.__name__)\n"
    )
    assert run(tmp_path, "consumer.py") == "KafkaConsumer\n"
    assert run(tmp_path, "-m", "consumer") == "KafkaConsumer\n"


@pytest.mark.parametrize("project", ["theirs", "tmp_path"])
def test_programs_run_by_that_name(project: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(project)
    for module in ("zkcoord.consumer.spark.sink", "zkcoord.consumer.spark.audit"):
        assert f"python -m {module}" in run(folder, "-m", module, "--help")
    assert "usage: zkcoord migrate" in run(folder, "-m", "zkcoord.cli.main", "migrate", "--help")


def test_what_was_pickled_in_one_project_is_read_in_another(theirs: Path, tmp_path: Path) -> None:
    """A Spark application's driver and its workers need not see the same folders."""
    plain = tmp_path / "plain"
    plain.mkdir()
    write = (
        "import pickle, sys; from zkcoord.consumer.spark.plan import PlannedRange as P;"
        " from zkcoord.consumer.spark.source import ZkcoordSource as S;"
        " sys.stdout.write(pickle.dumps((P, S)).hex())"
    )
    read = (
        "import pickle, sys; p, s = pickle.loads(bytes.fromhex(sys.argv[1]));"
        " print(p.__qualname__, s.__qualname__)"
    )
    for here, there in ((theirs, plain), (theirs, theirs), (plain, plain)):
        pickled = run(here, "-c", write)
        assert run(there, "-c", read, pickled) == "PlannedRange ZkcoordSource\n"


def test_the_packages_import_of_each_other_in_one_form() -> None:
    """`from consumer.x import y`, which is what is renamed where they are loaded apart."""
    for source in product(FILES).values():
        if source.path.split("/")[0] not in NAMES:
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.split(".")[0] in NAMES]
                assert not names, f"{source.path}:{node.lineno} imports {names}"
