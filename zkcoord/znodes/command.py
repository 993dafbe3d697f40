"""Commands: what the coordinator tells a member, as JSON in the member's channel.

The payload's (epoch, seq) orders commands; the node's name orders nothing and is not parsed. A
partition's text is `<topic>-<n>` with the number after the last dash. The incarnation is a string,
because 64-bit numbers do not survive every JSON reader. A start that gives a partition to a thread
of another member is malformed: obeying it would create an owner node in somebody else's name.
"""

from __future__ import annotations

from zkcoord.core.model import Command, Malformed, Option, Thread, TopicPartition
from zkcoord.znodes import names
from zkcoord.znodes.owner_offset_epoch import INCARNATION_CHARS_MAX, is_incarnation
from zkcoord.znodes.strict_json import (
    USER_DATA_CHARS_MAX,
    JsonObject,
    UnfitField,
    decimal,
    free_text,
    integer,
    mapping,
    reading,
    required,
    string,
    strings,
    to_bytes,
)

CODE_CHARS_MAX = 100
SEEN_CHARS_MAX = 100
MESSAGE_CHARS_MAX = 2_000
PARTITION_CHARS_MAX = names.NAME_CHARS_MAX + 10

_OPTIONS = {option.value: option for option in Option}


def decode_command(member: str, node: str, data: bytes) -> Command | Malformed:
    """The command in the node `node` of `member`'s channel. Never raises."""
    return reading(
        "command", f"{member}/{node}", data, lambda document: _command(member, node, document)
    )


def encode_command(command: Command) -> bytes:
    """A command's data."""
    document: JsonObject = {
        "version": 1,
        "option": command.option.value,
        "epoch": command.epoch,
        "seq": command.seq,
        "generation": command.generation,
        "incarnation": str(command.incarnation),
    }
    if command.option is Option.START:
        document["ownershipMap"] = {
            str(partition): str(thread) for partition, thread in command.start.items()
        }
        if command.incarnations:
            document["incarnations"] = dict(command.incarnations)
    elif command.option is Option.STOP:
        document["partitions"] = [str(partition) for partition in command.stop]
    else:
        document |= {
            "code": command.code,
            "fatal": command.fatal,
            "message": names.printable(command.message, MESSAGE_CHARS_MAX),
        }
    if command.more:
        document["more"] = True
    if command.seen:
        document["seen"] = command.seen
    if command.user_data is not None:
        document["userData"] = command.user_data
    return to_bytes(document)


def _command(member: str, node: str, document: JsonObject) -> Command:
    integer(document, "version", 1, 1)
    option = _OPTIONS.get(string(document, "option", CODE_CHARS_MAX))
    if option is None:
        raise UnfitField(f"option is not one of {', '.join(_OPTIONS)}")
    telling = option in (Option.REJECT, Option.NOTIFY)
    return Command(
        member=member,
        incarnation=decimal(document, "incarnation"),
        option=option,
        epoch=integer(document, "epoch"),
        seq=integer(document, "seq"),
        generation=integer(document, "generation"),
        start=(
            _ownership(member, mapping(document, "ownershipMap")) if option is Option.START else {}
        ),
        incarnations=(
            _incarnations(mapping(document, "incarnations", {})) if option is Option.START else {}
        ),
        more=_flag(document, "more") if "more" in document and not telling else False,
        stop=_partitions(document) if option is Option.STOP else (),
        code=string(document, "code", CODE_CHARS_MAX) if telling else "",
        fatal=_flag(document, "fatal") if telling else False,
        message=string(document, "message", MESSAGE_CHARS_MAX) if telling else "",
        user_data=(
            free_text(document, "userData", USER_DATA_CHARS_MAX) if "userData" in document else None
        ),
        seen=string(document, "seen", SEEN_CHARS_MAX, ""),
        node=node,
    )


def _ownership(member: str, found: JsonObject) -> dict[TopicPartition, Thread]:
    threads: dict[str, Thread] = {}
    ownership: dict[TopicPartition, Thread] = {}
    for key, text in found.items():
        if type(text) is not str or text not in threads:
            threads[text] = _thread(member, key, string(found, key, names.MEMBER_CHARS_MAX + 10))
        ownership[_partition(key)] = threads[text]
    return ownership


def _incarnations(found: JsonObject) -> dict[str, str]:
    for topic in found:
        if not names.is_topic(topic) or not is_incarnation(
            string(found, topic, INCARNATION_CHARS_MAX)
        ):
            raise UnfitField(f"the incarnation of {names.shown(topic)} is none")
    return found


def _thread(member: str, key: str, text: str) -> Thread:
    thread = names.parse_thread(text)
    if thread is None or thread.member != member:
        raise UnfitField(
            f"{names.shown(key)} is given to something that is not a thread of this member"
        )
    return thread


def _partitions(document: JsonObject) -> tuple[TopicPartition, ...]:
    found = tuple(_partition(text) for text in strings(document, "partitions", PARTITION_CHARS_MAX))
    if len(set(found)) != len(found):
        raise UnfitField("partitions names one twice")
    return found


def _partition(text: str) -> TopicPartition:
    partition = names.parse_partition(text)
    if partition is None:
        raise UnfitField(f"{names.shown(text)} is not a partition")
    return partition


def _flag(document: JsonObject, key: str) -> bool:
    value = required(document, key)
    if type(value) is not bool:
        raise UnfitField(f"{key} is not true or false")
    return value
