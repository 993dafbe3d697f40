"""Members that come and go: one again and again, many, and why, as far as they say it when they
come back. By the journal alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from zkcoord.core.error_codes import EndKind, parse_end
from zkcoord.core.value_type import value
from zkcoord.health.trouble.evidence import Evidence, text
from zkcoord.health.trouble.kinds import Trouble, TroubleKind
from zkcoord.health.trouble.lives import Life, by_identity, chain
from zkcoord.health.trouble.stuck import died_on
from zkcoord.health.trouble.words import many, some, span
from zkcoord.znodes.names import origin_of

MINUTE_MS = 60_000
RECENT_MS = 10 * MINUTE_MS
"""What did not happen for so long is over."""

SHORT_LIFE_MS = 5 * MINUTE_MS
"""A life that a member does not end for a reason of its own is longer: nothing is deployed every
five minutes.
"""

FLAPS_MIN = 4
"""Short lives one after another. A deployment that is taken back and made again are two; somebody
who tries something out by hand, three.
"""

AGAIN_MIN = 3
"""Once is an accident and twice may be its repair; what comes a third time within an hour comes a
fourth time.
"""

EVICTED_MIN = 2
"""An eviction takes a whole rebalance timeout, in which the group waited: once is told anyway."""

STORM_MEMBERS_MIN = 3
"""Fewer are one or two that flap, and are named."""

OTHER_CAUSES_MAX = 20
"""Rebalances within ten minutes for topics or subscriptions that change: one each half minute."""

FOREVER = 2**62


def ended_again(e: Evidence) -> Iterator[Trouble]:
    """Members whose membership ended by their poll interval, or with their session, again and
    again; or by eviction.
    """
    for kind, least, trouble in (
        (EndKind.POLL, AGAIN_MIN, _unpolled),
        (EndKind.SESSION, AGAIN_MIN, _expired),
        (EndKind.EVICTED, EVICTED_MIN, _evicted),
    ):
        for lives in by_identity(e.lives).values():
            told = _told(_unasked(e, lives) if kind is EndKind.EVICTED else lives, kind)
            if len(told) >= least and (told[-1].began_ms or 0) >= e.since(RECENT_MS):
                yield trouble(e, told)


def _unasked(e: Evidence, lives: Sequence[Life]) -> list[Life]:
    """Those that came back of themselves: not because an operator had the one before evicted, as
    the journal says.
    """
    found = sorted(
        (life for life in lives if life.ended.startswith(EndKind.EVICTED.value)),
        key=lambda life: life.began_ms or 0,
    )
    asked = [life for life in e.lives if life.asked and _is_before(e.group, life, lives)]
    for before in sorted(asked, key=lambda life: life.over_ms or 0, reverse=True):
        after = next((one for one in found if (one.began_ms or 0) >= (before.over_ms or 0)), None)
        if after is not None:
            found.remove(after)
    return found


def _is_before(group: str, one: Life, lives: Sequence[Life]) -> bool:
    """Whether it may be one of these, under an earlier name: whose coming nobody has seen is known
    by its origin.
    """
    if one.began_ms is not None or not lives:
        return any(one.identity == life.identity for life in lives[:1])
    origin = origin_of(group, one.member)
    return bool(origin) and any(origin == origin_of(group, life.member) for life in lives)


def _told(lives: Sequence[Life], kind: EndKind) -> list[Life]:
    """Lives one after another of which each says that the one before ended so; one that goes on
    counts, too.
    """
    found = [
        replace(life, over_ms=life.over_ms or FOREVER)
        for life in lives
        if life.ended and (end := parse_end(life.ended)) is not None and end.kind is kind
    ]
    return chain(found)


def _figures(told: Sequence[Life]) -> list[int]:
    return [end.ms for life in told if (end := parse_end(life.ended)) is not None]


def _unpolled(e: Evidence, told: Sequence[Life]) -> Trouble:
    last, longest = told[-1], max(_figures(told))
    return Trouble(
        TroubleKind.POLL_INTERVAL,
        e.group,
        f"{last.member} ({last.identity}) left {many(len(told), 'time')} in"
        f" {span(e.now_ms - (told[0].began_ms or 0))} because it had not polled within"
        f" max_poll_interval_ms, for up to {span(longest)} each time",
        "Have it take fewer records at a time (max_poll_records) or be done with them sooner; raise"
        f" max_poll_interval_ms above {span(longest)} only where a batch may take that long",
        told[0].began_ms or 0,
        last.member,
        identity=last.identity,
    )


def _expired(e: Evidence, told: Sequence[Life]) -> Trouble:
    last, stood = told[-1], max(_figures(told))
    if stood >= 1_000:
        why = f"; its process stood still by its own clock, for up to {span(stood)}"
        remedy = (
            "Find what stops the process (a collection of garbage, a machine that swaps or is"
            " paused, a processor that is not given to it) or raise zookeeper_session_timeout_ms"
            f" above {span(stood)}"
        )
    else:
        why = "; its process did not stand still, so it was cut off from ZooKeeper"
        remedy = (
            "Look at the network between its host and the ensemble, and at slow or overloaded"
            " servers of the ensemble"
        )
    return Trouble(
        TroubleKind.SESSION_EXPIRY,
        e.group,
        f"the ZooKeeper session of {last.member} ({last.identity}) expired"
        f" {many(len(told), 'time')} in {span(e.now_ms - (told[0].began_ms or 0))}{why}",
        remedy,
        told[0].began_ms or 0,
        last.member,
        identity=last.identity,
    )


def _evicted(e: Evidence, told: Sequence[Life]) -> Trouble:
    last = told[-1]
    return Trouble(
        TroubleKind.SLOW_HANDLER,
        e.group,
        f"{last.member} ({last.identity}) was evicted {many(len(told), 'time')} in"
        f" {span(e.now_ms - (told[0].began_ms or 0))} because it did not answer a command within"
        " its rebalance timeout, and the group waited for that long each time",
        "Have it poll more often, or be done sooner in on_partitions_revoked; its log says where it"
        " was",
        told[0].began_ms or 0,
        last.member,
        identity=last.identity,
    )


def flapping(e: Evidence) -> Iterator[Trouble]:
    """A member that comes and goes again and again, and of which nothing else is known; of many,
    one finding.
    """
    explained = {e.identities.get(found.member) for found in ended_again(e)}
    explained |= {life.identity for found in died_on(e).values() for life in found}
    found = [
        one
        for identity, lives in by_identity(e.lives).items()
        if identity not in explained and (one := _flapping(e, lives)) is not None
    ]
    if sum(len(one.short) / len(one.chain) for one in found) >= STORM_MEMBERS_MIN:
        yield _storm(e, found)
        return
    for one in found:
        began_ms, over_ms = one.chain[0].began_ms or 0, one.chain[-1].over_ms or 0
        yield Trouble(
            TroubleKind.FLAPPING_MEMBER,
            e.group,
            f"{one.newest.member} ({one.newest.identity}) came and went"
            f" {many(len(one.chain), 'time')} in {span(over_ms - began_ms)}, and stayed for"
            f" {span(sum(life.took_ms for life in one.chain) // len(one.chain))} on average; the"
            " group was rebalanced for each",
            "Its own log says why it ends: mend that, or stop it until it is mended; a supervisor"
            " that starts it again should wait longer each time",
            began_ms,
            one.newest.member,
            identity=one.newest.identity,
        )


@value
class Flapping:
    """Short lives of one identity, as many of them as are one after another, and who is, or was,
    there last.
    """

    short: Sequence[Life]
    chain: Sequence[Life]
    newest: Life


def _flapping(e: Evidence, lives: Sequence[Life]) -> Flapping | None:
    short = [life for life in lives if life.is_whole and life.took_ms < SHORT_LIFE_MS]
    found = chain(short)
    if len(found) < FLAPS_MIN or (found[-1].over_ms or 0) < e.since(RECENT_MS):
        return None
    return Flapping(short, found, max(lives, key=lambda life: life.began_ms or 0))


def _storm(e: Evidence, found: Sequence[Flapping]) -> Trouble:
    since_ms = min(one.chain[0].began_ms or 0 for one in found)
    rebalances = [r for r in e.rebalances if r["t"] >= since_ms]
    worst = sorted(found, key=lambda one: (-len(one.short), one.newest.identity))
    named = [f"{one.newest.identity} ({len(one.short)} times)" for one in worst]
    return Trouble(
        TroubleKind.REBALANCE_STORM,
        e.group,
        f"{many(len(rebalances), 'rebalance')} in {span(e.now_ms - since_ms)}, because many members"
        f" come and go: {some(named)}",
        "Look for what they have in common (a deployment that fails, a host, a dependency of which"
        " they die), and stop the deployment until it is mended",
        since_ms,
    )


def restless(e: Evidence) -> Iterator[Trouble]:
    """Many rebalances for causes that are no members."""
    found = [
        r
        for r in e.rebalances
        if r["t"] >= e.since(RECENT_MS) and not _is_membership(text(r, "cause"))
    ]
    if len(found) <= OTHER_CAUSES_MAX:
        return
    counts = Counter((text(r, "cause"), text(r, "trigger")) for r in found)
    causes = [f"{cause} {trigger} ({n} times)" for (cause, trigger), n in counts.most_common()]
    yield Trouble(
        TroubleKind.REBALANCE_STORM,
        e.group,
        f"{many(len(found), 'rebalance')} in {span(e.now_ms - found[0]['t'])} that no coming or"
        f" going member called for: {some(causes)}",
        "Find who changes these topics or subscriptions again and again, and have it stop",
        found[0]["t"],
    )


def _is_membership(cause: str) -> bool:
    return cause in ("member joined", "member left", "coordinator took over") or not cause
