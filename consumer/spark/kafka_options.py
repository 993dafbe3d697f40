"""`kafka.*` options, checked in the driver as each engine would take them in a task: names and
values are librdkafka's, names of Java's client are answered with librdkafka's.

Where confluent-kafka is installed librdkafka itself is asked, by making a client that is told of no
broker; so nothing is connected. Nothing here raises: what is refused is a list of sentences.
"""

from __future__ import annotations

import difflib
import importlib.util
import logging
import re
from collections.abc import Mapping

from consumer.errors import ConsumerOptionError
from consumer.option_types import read_option
from consumer.spark.decode.settings import (
    DEFAULTS,
    GROUP,
    KAFKA_PYTHON,
    LIBRDKAFKA_ALONE,
    librdkafka_settings,
)

CLOSE = 0.85
BROKERS = ("bootstrap.servers", "metadata.broker.list")
JAVA = "it is for Java's client: "
GROUPLESS = (
    "the source has a membership of its own in ZooKeeper and reads without Kafka's group protocol:"
    " leave it out"
)

REFUSED: dict[str, str] = {
    "group.id": "the group is named by groupId",
    "group.instance.id": "use groupInstanceId",
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "offsets are stored when a batch is written",
    "enable.auto.offset.store": "offsets are stored when a batch is written",
    "auto.commit.interval.ms": "offsets are stored when a batch is written",
    "enable.partition.eof": "it is needed to know where a range ends",
    "key.deserializer": "keys are bytes: decode them with Spark's functions",
    "value.deserializer": "values are bytes: decode them with Spark's functions",
    "key.serializer": "this is a source: leave it out",
    "value.serializer": "this is a source: leave it out",
    "interceptor.classes": "they are for Java's client: leave it out",
    "sasl.jaas.config": JAVA + "use kafka.sasl.username and kafka.sasl.password",
    "ssl.truststore.location": JAVA + "use kafka.ssl.ca.location, a PEM file",
    "ssl.truststore.password": JAVA + "use kafka.ssl.ca.location, a PEM file without a password",
    "ssl.truststore.type": JAVA + "use kafka.ssl.ca.location, a PEM file",
    "ssl.truststore.certificates": JAVA + "use kafka.ssl.ca.pem",
    "ssl.keystore.type": JAVA + "use kafka.ssl.certificate.location, a PEM file",
    "ssl.keystore.certificate.chain": JAVA + "use kafka.ssl.certificate.pem",
    "ssl.keystore.key": JAVA + "use kafka.ssl.key.pem",
    "partition.assignment.strategy": "use partitionAssignmentStrategy",
    "session.timeout.ms": "use zookeeperSessionTimeoutMs",
    "heartbeat.interval.ms": GROUPLESS,
    "max.poll.interval.ms": GROUPLESS,
    "group.protocol": GROUPLESS,
    "group.remote.assignor": GROUPLESS,
    "max.poll.records": "use maxOffsetsPerTrigger",
    "exclude.internal.topics": "use subscribe or subscribePattern",
    "default.api.timeout.ms": JAVA + "leave it out, or use kafka.socket.timeout.ms",
}
# Name of Java's client -> librdkafka's.
JAVAS: dict[str, str] = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms",
    "ssl.keystore.location": "ssl.certificate.location and kafka.ssl.key.location, PEM files",
    "ssl.keystore.password": "ssl.key.password",
}
# Beginnings of names of Java's client that have no counterpart.
JAVA_ALONE = (
    "metric.reporters",
    "metrics.",
    "auto.include.jmx.reporter",
    "enable.metrics.push",
    "security.providers",
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.provider",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
    "ssl.engine.factory.class",
    "sasl.client.callback.handler.class",
    "sasl.login.",
    "sasl.kerberos.ticket.renew.",
    "sasl.server.",
)
WORDS: dict[str, tuple[str, ...]] = {
    "isolation.level": ("read_uncommitted", "read_committed"),
    "security.protocol": ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
    "ssl.endpoint.identification.algorithm": ("https", "none"),
    "check.crcs": ("true", "false"),
    **dict.fromkeys(
        ("sasl.mechanism", "sasl.mechanisms"),
        ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"),
    ),
}
ANY_CASE = frozenset({"security.protocol", "check.crcs"})
_NAMED = re.compile(r'property:? "([^"]+)"|value for "([^"]+)"')
_log = logging.getLogger(f"{__name__}.silent")
_log.propagate = False
_log.addHandler(logging.NullHandler())


def refusals(kafka: Mapping[str, str], engine: str) -> list[str]:
    """What is wrong with these settings (names without prefix), a sentence each; `engine` is the
    option.
    """
    wrong: list[str] = []
    good: dict[str, str] = {}
    for name, value in kafka.items():
        said = _refused(name, value)
        if said:
            wrong.append(said)
        else:
            good[name] = value
    if set(good) <= set(BROKERS):
        return wrong
    if engine != "kafka-python" and importlib.util.find_spec("confluent_kafka") is not None:
        return wrong + _librdkafkas(good, not wrong)
    return wrong + [
        f"kafka.{name} cannot be used with the engine kafka-python{_near(name)}: leave it out, or"
        " pip install confluent-kafka"
        for name in good
        if name not in KAFKA_PYTHON and name not in LIBRDKAFKA_ALONE
    ]


def _refused(name: str, value: str) -> str:
    """What can be said without asking librdkafka; "" where there is nothing."""
    if name in REFUSED:
        return f"kafka.{name} cannot be used here: {REFUSED[name]}"
    if name in JAVAS:
        return f"kafka.{name} is a name of Java's client: use kafka.{JAVAS[name]}"
    if name.startswith(JAVA_ALONE):
        return f"kafka.{name} is for Java's client, and librdkafka has none: leave it out"
    if name in WORDS:
        text = value.strip()
        fits = text.lower() if name in ANY_CASE else text
        if fits not in WORDS[name]:
            return f"kafka.{name} is {value!r}: write {' or '.join(WORDS[name])}"
    if name in KAFKA_PYTHON and not name.startswith(("ssl.", "sasl.")):
        theirs, said = KAFKA_PYTHON[name]
        try:
            read_option(theirs, said(value), f"kafka.{name}")
        except ConsumerOptionError as error:
            return str(error)
    return ""


def _librdkafkas(good: Mapping[str, str], whole: bool) -> list[str]:
    """What librdkafka itself refuses. `whole`: these are all settings, so that what they come to
    together counts, too.
    """
    import confluent_kafka

    settings = librdkafka_settings({**good, "bootstrap.servers": "-"})
    for name in BROKERS:
        settings.pop(name, None)
    wrong: list[str] = []
    while True:
        try:
            confluent_kafka.Consumer({**settings, "group.id": GROUP}, logger=_log).close()
        except (confluent_kafka.KafkaException, ValueError, TypeError) as e:
            said = _said(e)
            named = _NAMED.search(said)
            name = (named[1] or named[2]) if named is not None else ""
            if name in settings:
                wrong.append(_explained(name, settings.pop(name), said))
                continue
            if whole and not wrong:
                wrong.append(f"the kafka. options cannot be used together: {said}")
        return wrong


def _explained(name: str, value: str, said: str) -> str:
    if said.startswith("No such configuration property"):
        return f"kafka.{name} is not an option of librdkafka{_near(name)}"
    return f"kafka.{name} is {value!r}, which librdkafka does not take: {said}"


def _near(name: str) -> str:
    known = {*DEFAULTS, *KAFKA_PYTHON}
    near = difflib.get_close_matches(name, known, n=1, cutoff=CLOSE)
    return f": did you mean 'kafka.{near[0]}'?" if near else ""


def _said(error: BaseException) -> str:
    said = error.args[0]
    return str(said if isinstance(said, str) else said.str()).strip()
