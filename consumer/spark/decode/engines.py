"""What the reader needs of an engine, what the two slower ones share, and which one is used."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Mapping

from consumer.errors import ConsumerOptionError
from consumer.spark.decode.engine_base import Handle
from consumer.spark.decode.errors import EngineUnavailableError

log = logging.getLogger(__name__)

ENGINES = ("c", "confluent", "kafka-python")


def make_handle(engine: str, settings: Mapping[str, str]) -> Handle:
    """A handle of this engine. Raises `EngineUnavailableError`, `ConsumerOptionError`,
    `ReadError`.
    """
    if engine == "c":
        from consumer.spark.decode.engine_c import CHandle

        return CHandle(settings)
    if engine == "confluent":
        from consumer.spark.decode.engine_confluent import ConfluentHandle

        return ConfluentHandle(settings)
    from consumer.spark.decode.engine_kafka_python import KafkaPythonHandle

    return KafkaPythonHandle(settings)


def choose(engine: str) -> tuple[str, str]:
    """(the engine to use, why), of one of `ENGINES` or auto. Raises `ConsumerOptionError` for
    another name and `EngineUnavailableError` where it cannot be used.
    """
    if engine not in (*ENGINES, "auto"):
        raise ConsumerOptionError(
            f"engine is {engine!r}: use auto, {', '.join(ENGINES[:-1])} or {ENGINES[-1]}"
        )
    if engine == "kafka-python":
        return engine, "it was asked for"
    reason = "it was asked for"
    if engine in ("c", "auto"):
        from consumer.spark.decode.engine_c import load

        try:
            return "c", f"librdkafka {load()[1]}"
        except EngineUnavailableError as e:
            if engine == "c":
                raise
            reason = str(e)
    if importlib.util.find_spec("confluent_kafka") is not None:
        return "confluent", reason
    if engine == "confluent":
        raise EngineUnavailableError(
            "the engine confluent needs confluent-kafka: pip install 'zkcoord[spark]'"
        )
    return "kafka-python", reason
