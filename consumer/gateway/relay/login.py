"""Whether a broker knows yet who a client is. SASL is relayed; of it only the answers' outcome is
read, so that nobody stays who does not say who they are.
"""

from __future__ import annotations

import time

from kafka.protocol.sasl import SaslAuthenticateResponse

from consumer.gateway.frames import BAD, SASL_AUTHENTICATE, SASL_HANDSHAKE, BadFrameError, Head

LOGIN_S = 30.0
LOGIN_BYTES_MAX = 1024 * 1024
"""Of a request of somebody who is not known yet: twice what brokers take by themselves."""

NOT_YET = (b"r=", b"{")
"""How an answer begins after which more must follow: SCRAM's first (RFC 5802), and OAUTHBEARER's
refusal (RFC 7628). After any other without an error the broker is taken to know the client.
"""


class ClientLogin:
    """One connection's. `awaited`: its broker demands SASL, and does not know it yet."""

    def __init__(self, demanded: bool) -> None:
        self.awaited = demanded
        self._until_s = time.monotonic() + LOGIN_S

    def frame_bytes_max(self, usual: int) -> int:
        """How large a request may be."""
        return min(usual, LOGIN_BYTES_MAX) if self.awaited else usual

    def is_overdue(self) -> bool:
        """Whether it has had time enough."""
        return self.awaited and time.monotonic() > self._until_s

    def check(self, head: Head) -> None:
        """Raises `BadFrameError` for the first version of SaslHandshake, which is not offered:
        behind it come tokens that are no requests, and some have no answer, so that those of later
        requests would be taken for one another's.
        """
        if head.key == SASL_HANDSHAKE and head.version < 1:
            raise BadFrameError("version 0 of SaslHandshake was not offered")

    def reads(self, head: Head) -> bool:
        """Whether the answer to this is of interest (`answered`)."""
        return self.awaited and head.key == SASL_AUTHENTICATE

    def answered(self, head: Head, frame: bytes) -> None:
        """A broker's answer to a SaslAuthenticate (without its length). One that cannot be read
        says nothing.
        """
        try:
            found = SaslAuthenticateResponse.decode(frame, version=head.version, header=True)
            token = bytes(found.auth_bytes or b"")
        except BAD:
            return
        if found.error_code == 0 and not token.startswith(NOT_YET):
            self.awaited = False
