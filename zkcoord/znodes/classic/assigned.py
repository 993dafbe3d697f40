"""Which partitions an assignment names that a client brought, where it is one of Kafka's
ConsumerProtocol: so consumers encode it, and Kafka Streams, whatever assigned. Others have their
own, which nobody here can read.
"""

from __future__ import annotations

from zkcoord.core.model import TopicPartition
from zkcoord.znodes.classic.consumer_blobs import BadBlobError, BlobReader
from zkcoord.znodes.names import is_topic

PARTITIONS_MAX = 100_000


def partitions_of(data: bytes) -> tuple[TopicPartition, ...] | None:
    """Those that it names, sorted, each once; None: that cannot be read. What follows them (user
    data, fields of later versions) is not looked at.
    """
    if not data:
        return ()
    reader = BlobReader(data)
    found: set[TopicPartition] = set()
    try:
        if reader.int16() < 0:
            return None
        for _ in range(reader.count(PARTITIONS_MAX)):
            topic = reader.text()
            for _ in range(reader.count(PARTITIONS_MAX)):
                found.add(TopicPartition(topic, reader.int32()))
                if len(found) > PARTITIONS_MAX:
                    return None
    except BadBlobError:
        return None
    fit = all(is_topic(tp.topic) and tp.partition >= 0 for tp in found)
    return tuple(sorted(found)) if fit else None
