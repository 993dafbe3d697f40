"""The life of a member, as a table: what each happening means in each phase. A pair that the table
does not have raises.
"""

from __future__ import annotations

import enum


class Phase(enum.Enum):
    """Where a member stands."""

    IDLE = "idle"
    OPENING = "opening a session"
    JOINING = "joining"
    MEMBER = "member"
    RESETTING = "leaving to come back"
    PARKING = "leaving until somebody polls"
    PARKED = "waiting for a poll"
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


class Happening(enum.Enum):
    """What moves it."""

    WANTED = "the application subscribed or polled"
    OPENED = "a session is connected"
    REGISTERED = "the registration exists"
    OVER = "the session is over"
    EVICTED = "the registration is gone"
    EVICTED_UNPOLLED = "the registration is gone, and whether the application hangs is not known"
    SENT_AWAY = "the coordinator sends it away for a while"
    UNPOLLED = "the application does not poll"
    LEAVE = "the application closes"
    BROKEN = "it cannot go on"


P, H = Phase, Happening

TRANSITIONS: dict[tuple[Phase, Happening], Phase] = {
    (P.IDLE, H.WANTED): P.OPENING,
    (P.IDLE, H.LEAVE): P.CLOSED,
    (P.OPENING, H.OPENED): P.JOINING,
    (P.OPENING, H.OVER): P.OPENING,
    (P.OPENING, H.LEAVE): P.CLOSING,
    (P.OPENING, H.BROKEN): P.FAILED,
    (P.OPENING, H.UNPOLLED): P.PARKING,
    (P.JOINING, H.REGISTERED): P.MEMBER,
    (P.JOINING, H.OVER): P.OPENING,
    (P.JOINING, H.LEAVE): P.CLOSING,
    (P.JOINING, H.BROKEN): P.FAILED,
    (P.JOINING, H.UNPOLLED): P.PARKING,
    (P.MEMBER, H.OVER): P.OPENING,
    (P.MEMBER, H.EVICTED): P.RESETTING,
    (P.MEMBER, H.EVICTED_UNPOLLED): P.PARKING,
    (P.MEMBER, H.SENT_AWAY): P.RESETTING,
    (P.MEMBER, H.UNPOLLED): P.PARKING,
    (P.MEMBER, H.LEAVE): P.CLOSING,
    (P.MEMBER, H.BROKEN): P.FAILED,
    (P.RESETTING, H.OVER): P.OPENING,
    (P.RESETTING, H.LEAVE): P.CLOSING,
    (P.PARKING, H.OVER): P.PARKED,
    (P.PARKING, H.WANTED): P.RESETTING,
    (P.PARKING, H.LEAVE): P.CLOSING,
    (P.PARKED, H.WANTED): P.OPENING,
    (P.PARKED, H.LEAVE): P.CLOSED,
    (P.CLOSING, H.OVER): P.CLOSED,
    (P.CLOSING, H.LEAVE): P.CLOSING,
    (P.CLOSED, H.LEAVE): P.CLOSED,
    (P.FAILED, H.OVER): P.FAILED,
    (P.FAILED, H.LEAVE): P.CLOSED,
    (P.CLOSED, H.OVER): P.CLOSED,
}


def next_phase(phase: Phase, happening: Happening) -> Phase:
    """The phase after `happening`. Raises `AssertionError` for a pair that the table does not
    have.
    """
    after = TRANSITIONS.get((phase, happening))
    assert after is not None, f"a member that is {phase.value} cannot meet: {happening.value}"
    return after
