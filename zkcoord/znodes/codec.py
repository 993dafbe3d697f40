"""Bytes to values and back, one parser per kind of node. Import from here.

A decoder takes what was read and returns the value or a `Malformed` that names it; it never raises,
whatever the bytes, and its cost is bounded by their number. An encoder takes a value that its
decoder would return; what a user chose is checked there and refused in one sentence.
"""

from __future__ import annotations

from zkcoord.znodes.command import decode_command, encode_command
from zkcoord.znodes.commit_metadata import (
    CommitMetadata,
    decode_commit_metadata,
    encode_commit_metadata,
)
from zkcoord.znodes.kafka import (
    BrokerData,
    PartitionState,
    decode_broker,
    decode_partition_state,
    decode_topic,
)
from zkcoord.znodes.legacy_json import LegacyDocument, decode_legacy_document
from zkcoord.znodes.metadata import decode_group_state, decode_metadata, encode_metadata, ranges_of
from zkcoord.znodes.mode import decode_mode, encode_mode
from zkcoord.znodes.owner_offset_epoch import (
    EPOCH_MAX,
    EpochData,
    LeaderData,
    OffsetsOf,
    Vacant,
    decode_epoch,
    decode_incarnation,
    decode_leader,
    decode_offset,
    decode_owner,
    encode_epoch,
    encode_incarnation,
    encode_leader,
    encode_offset,
    encode_owner,
    is_incarnation,
)
from zkcoord.znodes.publication import Publication, decode_publication, encode_publication
from zkcoord.znodes.registration import decode_registration, encode_registration
from zkcoord.znodes.replayed_plan import (
    FencedRange,
    ReplayedPlan,
    decode_replayed_plan,
    encode_replayed_plan,
)
from zkcoord.znodes.request import decode_request, encode_request

__all__ = [
    "EPOCH_MAX",
    "BrokerData",
    "CommitMetadata",
    "EpochData",
    "FencedRange",
    "LeaderData",
    "LegacyDocument",
    "OffsetsOf",
    "PartitionState",
    "Publication",
    "ReplayedPlan",
    "Vacant",
    "decode_broker",
    "decode_command",
    "decode_commit_metadata",
    "decode_epoch",
    "decode_group_state",
    "decode_incarnation",
    "decode_leader",
    "decode_legacy_document",
    "decode_metadata",
    "decode_mode",
    "decode_offset",
    "decode_owner",
    "decode_partition_state",
    "decode_publication",
    "decode_registration",
    "decode_replayed_plan",
    "decode_request",
    "decode_topic",
    "encode_command",
    "encode_commit_metadata",
    "encode_epoch",
    "encode_incarnation",
    "encode_leader",
    "encode_metadata",
    "encode_mode",
    "encode_offset",
    "encode_owner",
    "encode_publication",
    "encode_registration",
    "encode_replayed_plan",
    "encode_request",
    "is_incarnation",
    "ranges_of",
]
