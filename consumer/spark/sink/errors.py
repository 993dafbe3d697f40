"""What a sink raises, as branches of the consumer's tree.

ConsumerError
└── SinkError
    ├── FencedBatchError        the batch must not be published any more: others may read its
    │                           records again
    ├── SinkRefusedError        (also ConfigurationError) this sink cannot be used like this
    └── DamagedSinkError        what was committed cannot be made visible: staged files or a
                                manifest are gone or changed
"""

from __future__ import annotations

from consumer.errors import ConsumerError
from zkcoord.errors import ConfigurationError


class SinkError(ConsumerError):
    """Root of what happens while a batch is published."""


class FencedBatchError(SinkError):
    """The batch was planned by a member that has lost its registration or a partition since.
    Nothing of it is visible; the query ends, and started again it goes on where the group stands.
    """


class SinkRefusedError(SinkError, ConfigurationError):
    """A sink cannot be used with this query, directory or connection; one sentence that says what
    to do.
    """

    fatal = True


class DamagedSinkError(SinkError):
    """A committed batch cannot be made visible, because somebody changed what was staged; one
    sentence that names it.
    """

    fatal = True
