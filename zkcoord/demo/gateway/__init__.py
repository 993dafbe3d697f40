"""The demo through gateways: one group of Kafka's own console consumer (Java), librdkafka, this
project's consumer and a Spark application, before two gateways; they join, leave, and are killed,
and so are a gateway and the coordinator. The verdict is the other demos'.

`console` runs the console consumer as a child process and tells what it does, `console_output`
reads what it prints; `librdkafka` is confluent-kafka in the form of this project's consumer; `cast`
starts and ends all of them, `scenario` is the story, `command` is the command line.
"""

from __future__ import annotations
