"""The columns: names, types and order of Spark's own Kafka source, and the Arrow form of them.

`timestampType` is 0 for the producer's time (CreateTime) and 1 for the broker's (LogAppendTime).
`headers` comes with `includeHeaders`. With `.schema(...)` a query names the columns that it wants,
in its order: the others are not even made. What it names must have the types of this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from consumer.errors import ConsumerOptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"
ALL_COLUMNS = (*COLUMNS, HEADERS)
SQL_TYPES: dict[str, str] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}


def full_schema(headers: bool) -> StructType:
    """All columns. Needs pyspark."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    types = {
        "key": BinaryType(),
        "value": BinaryType(),
        "topic": StringType(),
        "partition": IntegerType(),
        "offset": LongType(),
        "timestamp": TimestampType(),
        "timestampType": IntegerType(),
        HEADERS: ArrayType(
            StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        ),
    }
    return StructType(
        [StructField(name, types[name]) for name in (ALL_COLUMNS if headers else COLUMNS)]
    )


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The names of a query's columns, in its order. Raises `ConsumerOptionError` for a column that
    does not exist or has another type.
    """
    types = {field.name: field.dataType for field in full_schema(headers=True).fields}
    for field in schema.fields:
        if field.name not in types:
            raise ConsumerOptionError(
                f"there is no column {field.name!r}: .schema(...) takes"
                f" {', '.join(f'{name} {SQL_TYPES[name]}' for name in ALL_COLUMNS)}"
            )
        if field.dataType.simpleString() != types[field.name].simpleString():
            raise ConsumerOptionError(
                f"the column {field.name} is {SQL_TYPES[field.name]}, not"
                f" {field.dataType.simpleString()}: change .schema(...), and cast it afterwards"
            )
    names = tuple(field.name for field in schema.fields)
    if len(set(names)) < len(names):
        raise ConsumerOptionError(f".schema(...) names a column twice: {', '.join(names)}")
    return names


def arrow_type(column: str) -> pa.DataType:
    """The Arrow type of a column, exactly as Spark wants it."""
    import pyarrow as pa

    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        HEADERS: pa.list_(
            pa.field(
                "element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
            )
        ),
    }
    return types[column]


def arrow_schema(columns: Iterable[str]) -> pa.Schema:
    """The Arrow schema of a batch with these columns, in this order."""
    import pyarrow as pa

    return pa.schema([pa.field(name, arrow_type(name)) for name in columns])


def checked(columns: Sequence[str]) -> tuple[str, ...]:
    """The same, if all exist. Raises `ConsumerOptionError`."""
    for name in columns:
        if name not in SQL_TYPES:
            raise ConsumerOptionError(
                f"there is no column {name!r}: use some of {', '.join(ALL_COLUMNS)}"
            )
    return tuple(columns)
