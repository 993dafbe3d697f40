"""Reading in a test: rows of an engine, checked as Spark would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from consumer.spark.decode import EngineUnavailableError, Patience, open_reader
from consumer.spark.decode.engines import choose
from consumer.spark.plan import PlannedRange
from consumer.spark.schema import ALL_COLUMNS, arrow_schema


def _is_there(engine: str) -> bool:
    try:
        return choose(engine)[0] == engine
    except EngineUnavailableError:
        return False


ENGINES = tuple(filter(_is_there, ("c", "confluent", "kafka-python")))
"""Without a compiler there is no `c`."""

HASTY = Patience(probe_s=0.3, answer_s=2.0, unreachable_s=60.0, unknown_s=0.3, stalled_s=120.0)
GIVES_UP = Patience(probe_s=0.3, answer_s=2.0, unreachable_s=1.0, unknown_s=0.3, stalled_s=120.0)
"""Where there is no broker."""


def rows_of(
    bootstrap: str,
    engine: str,
    ranges: Iterable[PlannedRange],
    columns: Sequence[str] = ALL_COLUMNS,
    fail_on_data_loss: bool = True,
    patience: Patience = HASTY,
    **settings: str,
) -> list[dict[str, Any]]:
    """All rows, of batches that have exactly the schema that Spark expects. `settings`: with
    underscores for dots.
    """
    told = {
        "bootstrap.servers": bootstrap,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    batches = list(open_reader(told, engine, fail_on_data_loss, patience).read(ranges, columns))
    for batch in batches:
        assert batch.schema.equals(arrow_schema(columns), check_metadata=True)
        assert batch.num_rows > 0
        batch.validate(full=True)
    return pa.Table.from_batches(batches, arrow_schema(columns)).to_pylist()
