"""The request for topics, all or some, whose answer kafka-python hands over as bytes.

kafka-python decodes an answer as the class says to which the request's header points. This one
stands for the request, its header and that class, and passes on what it does not answer itself.
"""

from __future__ import annotations

from typing import Any

from zkcoord.core.value_type import value
from zkcoord.topics.whole_answers import NEWEST, OLDEST, THROTTLE_BYTES
from zkcoord.zk.term.topic_source import Names

OLD_ANSWER_BYTES_MAX = 10_000_000
"""Of versions that kafka-python decodes: a megabyte takes it a tenth of a second and more."""


@value
class WholeBytes:
    """An answer's bytes behind its header, for the client that looks whether it is throttled."""

    version: int
    data: bytes

    @property
    def throttle_time_ms(self) -> int:
        """For so long the broker wants no request."""
        return int.from_bytes(self.data[:THROTTLE_BYTES], "big", signed=True)


class WholeRequest:
    """See the module. What is answered is `WholeBytes`; of versions that are too old for it, what
    kafka-python makes of them.
    """

    def __init__(self, names: Names = None) -> None:
        from kafka.protocol.metadata import MetadataRequest

        topic = MetadataRequest.MetadataRequestTopic
        topics = None if names is None else [topic(name=name) for name in sorted(names)]
        self._request = MetadataRequest(
            topics=topics, allow_auto_topic_creation=False, max_version=NEWEST
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)

    @property
    def API_VERSION(self) -> int | None:
        """Which one the client has chosen."""
        version: int | None = self._request.API_VERSION
        return version

    @API_VERSION.setter
    def API_VERSION(self, version: int) -> None:
        self._request.API_VERSION = version

    # as its header

    @property
    def header(self) -> WholeRequest:
        """What the client keeps until there is an answer."""
        return self

    @property
    def correlation_id(self) -> int:
        """By which the answer is known."""
        found: int = self._request.header.correlation_id
        return found

    def get_response_class(self) -> WholeRequest:
        """What reads the answer."""
        return self

    # as the class of its answer

    def parse_header(self, read: Any) -> Any:
        """The answer's header."""
        return self._request.header.get_response_class().parse_header(read)

    def decode(self, read: Any) -> Any:
        """What is behind it."""
        version = self.API_VERSION
        if version is None or version < OLDEST:
            return self._decoded(read)
        return WholeBytes(version, read.read())

    def _decoded(self, read: Any) -> Any:
        from kafka.errors import KafkaProtocolError

        if len(read) > OLD_ANSWER_BYTES_MAX:
            raise KafkaProtocolError(f"an answer of {len(read)} bytes")
        return self._request.header.get_response_class().decode(read)
