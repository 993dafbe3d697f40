"""One group of nine clients of six kinds on a real broker, through random joins, leaves and kills:

    python -m tests.gateway.mixed --seed 1 --steps 60

Java, librdkafka, kafkajs and franz-go come through two gateways; shims (`zkcoord.consumer`) and a
Spark application are members by themselves. What runs, what is written down and what judges it are
the demo's (`zkcoord.demo.gateway`, `zkcoord.verdict`): `plan` draws the steps, `told` says of a
client of another language what the demo's clients say, `cast` starts and ends all of them,
`scenario` plays the steps, `again` says of records that were handed out twice whose death they
followed, `command` is the command line.
"""

from __future__ import annotations
