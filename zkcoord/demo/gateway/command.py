"""The command line of `python -m zkcoord.demo.gateway` and `make demo-gateway`: what this demo is
made of, for `zkcoord.demo.command`, and what has to be there before it begins.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence

from zkcoord.demo import command
from zkcoord.demo.cast import Cast
from zkcoord.demo.gateway.cast import WireClients
from zkcoord.demo.gateway.scenario import GatewayScenario
from zkcoord.demo.options import DemoOptions, Pace
from zkcoord.errors import ScenarioError
from zkcoord.stack import jars
from zkcoord.stack.java import find_java

FULL = Pace(partitions=12, grown=12, rate=800, records_between_steps=8_000)
FAST = Pace(partitions=12, grown=12, rate=800, records_between_steps=1_500)
TINY = Pace(partitions=6, grown=6, rate=400, records_between_steps=800, every_step=False)
STEP_TIMEOUT_S = 300.0
"""A Spark application takes its time to begin."""
SPARK = ("pyspark", "pyarrow", "pandas")
EXAMPLES = """\
examples:
  python -m zkcoord.demo.gateway                     about three minutes, with a live view
  python -m zkcoord.demo.gateway --fast              the same story, less work between the steps
  python -m zkcoord.demo.gateway --break two-owners  with a fault: the verdict must find it
"""


def announce(options: DemoOptions) -> str:
    """What the first sentence says."""
    clients, cost = "a Java and a librdkafka client", "about half a minute"
    if options.pace.every_step:
        clients = "two Java clients, three of librdkafka"
        cost = "two minutes"
        if options.with_spark:
            clients += ", a Spark application"
            cost = "some minutes and about 3 GB of memory"
    return (
        "Two servers (ZooKeeper, Kafka), two coordinators, two gateways, a producer, a consumer of"
        f" this project, {clients} are started on this machine, one after the other; the run takes"
        f" {cost}."
    )


def missing_for_spark() -> list[str]:
    """Packages that a Spark application needs and that are not installed."""
    return [name for name in SPARK if importlib.util.find_spec(name) is None]


def prepare(options: DemoOptions, say: Callable[[str], None]) -> Callable[[Cast], None]:
    """Fetch Kafka's tools, see what is missing; the story. Raises `ZkcoordError`."""
    if importlib.util.find_spec("confluent_kafka") is None:
        raise ScenarioError(
            "The librdkafka client needs the package confluent-kafka, which is not installed: run"
            " `pip install 'zkcoord[librdkafka]'`."
        )
    missing = missing_for_spark() if options.with_spark else []
    if missing and options.pace.every_step:
        say(
            f"No Spark application joins, because {' and '.join(missing)} is not installed"
            " (`pip install 'zkcoord[spark]'`)."
        )
    tools = jars.tools_classpath(find_java(), say)
    spark = options.with_spark and not missing
    return lambda cast: GatewayScenario(WireClients(cast, tools), spark).run()


PROGRAM = command.DemoProgram(
    "python -m zkcoord.demo.gateway",
    "demo-gateway",
    "Unmodified Kafka clients (Java, librdkafka) before two gateways, a consumer of this project"
    " and a Spark application share a group on a real broker, through joins, leaves and kills, also"
    " of a gateway and of the coordinator; then a verdict: was anything lost, duplicated or owned"
    " twice?",
    EXAMPLES,
    "only one client of each kind, without Spark",
    (FULL, FAST, TINY),
    announce,
    prepare,
    STEP_TIMEOUT_S,
    has_spark=True,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status of `zkcoord.demo.command`."""
    return command.main(argv, PROGRAM)
