"""Calls of the admin clients of confluent-kafka and kafka-python, and what they answer, as lines of
name=value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

CALL_S = 30.0
ALTERED = 4


def confluent(address: str, group: str, topic: str, call: str) -> list[str]:
    """The lines; an error is one."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        return list(_confluent(AdminClient({"bootstrap.servers": address}), group, topic, call))
    except KafkaException as error:
        return [f"{error.args[0].name()}: {error.args[0].str()}"]


def _confluent(admin: Any, group: str, topic: str, call: str) -> Iterator[str]:
    from confluent_kafka import ConsumerGroupTopicPartitions as Of
    from confluent_kafka import TopicPartition

    if call == "list":
        found = admin.list_consumer_groups(request_timeout=CALL_S).result()
        for one in found.valid:
            if one.group_id == group:
                yield f"simple={one.is_simple_consumer_group}"
                yield f"state={one.state}"
                yield f"type={one.type}"
        yield from (f"error={error}" for error in found.errors)
    elif call == "describe":
        asked = admin.describe_consumer_groups([group], include_authorized_operations=True)
        one = asked[group].result()
        yield f"simple={one.is_simple_consumer_group}"
        yield f"state={one.state}"
        yield f"type={one.type}"
        yield f"assignor={one.partition_assignor}"
        yield f"coordinator={one.coordinator}"
        operations = one.authorized_operations
        yield f"operations={None if operations is None else sorted(o.name for o in operations)}"
        for member in sorted(one.members, key=lambda member: member.client_id):
            yield f"{member.client_id} id={member.member_id}"
            yield f"{member.client_id} instance={member.group_instance_id}"
            yield f"{member.client_id} host={member.host}"
            owned = sorted(f"{p.topic}-{p.partition}" for p in member.assignment.topic_partitions)
            yield f"{member.client_id} assignment={owned}"
    elif call == "offsets":
        found = admin.list_consumer_group_offsets([Of(group)])[group].result()
        for one in sorted(found.topic_partitions, key=lambda one: one.partition):
            # not its metadata, which confluent-kafka 2.16 reads from where nothing is any more
            yield f"{one.topic}-{one.partition}={one.offset} {one.leader_epoch} {one.error}"
    elif call == "alter":
        wanted = Of(group, [TopicPartition(topic, 0, ALTERED, "why")])
        found = admin.alter_consumer_group_offsets([wanted])[group].result()
        for one in found.topic_partitions:
            yield f"{one.topic}-{one.partition}={one.offset} {one.error}"
    elif call == "delete":
        admin.delete_consumer_groups([group], request_timeout=CALL_S)[group].result()
        yield "deleted=True"
    else:
        yield "it has no such call"


def kafka_python(address: str, group: str, topic: str, call: str) -> list[str]:
    """The lines; an error is one."""
    from kafka.admin import KafkaAdminClient
    from kafka.errors import KafkaError

    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        return list(_kafka_python(admin, group, topic, call))
    except KafkaError as error:
        return [f"{type(error).__name__}: {error}"]
    finally:
        admin.close()


def _kafka_python(admin: Any, group: str, topic: str, call: str) -> Iterator[str]:
    from kafka.structs import OffsetAndMetadata, TopicPartition

    first = TopicPartition(topic, 0)
    if call == "list":
        for one in [one for one in admin.list_groups() if one["group_id"] == group]:
            yield f"protocol={one['protocol_type']}"
            yield f"state={one['group_state']}"
            yield f"type={one['group_type']}"
    elif call == "describe":
        one = admin.describe_groups([group], include_authorized_operations=True)[group]
        yield from (f"{name}={value}" for name, value in one.items() if name != "members")
        for member in sorted(one["members"], key=lambda member: str(member["client_id"])):
            for name, value in member.items():
                yield f"{member['client_id']} {name}={value}"
    elif call == "offsets":
        for at, stored in sorted(admin.list_group_offsets({group: None})[group].items()):
            yield (
                f"{at.topic}-{at.partition}={stored.offset} {stored.metadata!r}"
                f" {stored.leader_epoch}"
            )
    elif call == "alter":
        found = admin.alter_group_offsets(group, {first: OffsetAndMetadata(ALTERED, "why", -1)})
        for at, code in found.items():
            yield f"{at.topic}-{at.partition}={code.__name__}"
    elif call == "delete offsets":
        for at, code in admin.delete_group_offsets(group, [first]).items():
            yield f"{at.topic}-{at.partition}={code.__name__}"
    else:
        for name, error in admin.delete_groups([group]).items():
            yield f"{name}={error}"
