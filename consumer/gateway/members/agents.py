"""The agents of wire members: each is a member's driver, as every other member has one, with a
ZooKeeper session of its own. And where their partitions begin of which nothing is stored.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

from consumer.core import messages as msg
from consumer.core.options import MemberOptions
from consumer.gateway.cluster import Cluster
from consumer.gateway.members.spare_sessions import SpareSessions
from consumer.gateway.members.wire_group import Agent, AgentWishes
from consumer.member.driver import MemberDriver
from consumer.member.joining.unserved_asks import unserved_asks
from zkcoord.errors import ZkcoordError
from zkcoord.guarded import guard
from zkcoord.guardian.client import Guardian
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.overlay import OverlaidEnsemble
from zkcoord.znodes.names import consumer_id, printable
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.registration import TEXT_CHARS_MAX

log = logging.getLogger(__name__)

IDLE_LOOK_MS = 250


class Agents:
    """Makes them. `post` is the queue of the thread on which they run; `guardian` makes what closes
    the session of each, should this process be killed; `gateway` is where clients find this one.
    """

    def __init__(
        self,
        zk: ZkOptions,
        layout: Layout,
        post: Callable[[Callable[[], None]], None],
        guardian: Callable[[], Guardian],
        gateway: str = "",
    ) -> None:
        self.zk = zk
        self.layout = layout
        self.post = post
        self.guardian = guardian
        self.gateway = gateway
        self._spares = SpareSessions(zk, post)

    def close(self) -> None:
        """No more sessions are held ready. On the thread of `post`."""
        self._spares.close()

    def make(
        self,
        wishes: AgentWishes,
        told: Callable[[msg.ToFetcher], None],
        after: Callable[[], None],
    ) -> Agent:
        options = member_options(wishes, self.gateway)
        guardian = self.guardian()
        holder: list[MemberDriver] = []

        def post(thunk: Callable[[], None]) -> None:
            def run() -> None:
                thunk()
                if holder[0].finished:
                    guardian.stop()
                after()

            self.post(run)

        def on_session(session_id: int) -> None:
            guard(guardian, holder[0].port, session_id)

        def new_id() -> str:
            return consumer_id(wishes.group, wishes.host, wall_ms(), secrets.token_hex(4))

        driver = MemberDriver(
            OverlaidEnsemble(self._spares.of_member(post)),
            self.layout,
            options,
            boot_ms,
            wall_ms,
            new_id,
            told,
            lambda record: log.debug("%s", record),
            self.zk.acl,
            on_session,
            roles=self.zk.roles,
            unserved=unserved_asks(self.zk, self.layout),
        )
        holder.append(driver)
        return driver


def member_options(wishes: AgentWishes, gateway: str) -> MemberOptions:
    """What a wire member is. What its client is called is for people, and may be anything: of it
    the registration has what it can have.
    """
    return MemberOptions(
        group=wishes.group,
        host=printable(wishes.host, TEXT_CHARS_MAX),
        client=printable(wishes.client_id, TEXT_CHARS_MAX),
        library=printable(wishes.library, TEXT_CHARS_MAX),
        gateway=printable(gateway, TEXT_CHARS_MAX),
        process=secrets.token_hex(8),
        instance=wishes.instance,
        instance_is_new=wishes.alone,
        grace_ms=wishes.grace_ms,
        assignors=wishes.assignors,
        auto_commit=False,
        tells_starts=True,
        max_poll_interval_ms=0,
        rebalance_timeout_ms=wishes.rebalance_timeout_ms,
        idle_look_ms=IDLE_LOOK_MS,
    )


def find_begin(
    cluster: Cluster, group: str, ask: msg.Resolve, answer: Callable[[msg.Resolved], None]
) -> None:
    """Where partitions begin of which nothing is stored: where the group has committed in Kafka,
    else nowhere yet, which is the client's to say (auto.offset.reset). Blocks; what cannot be found
    out now is asked for again.
    """
    earliest = set(ask.earliest)
    rest = [tp for tp in ask.partitions if tp not in earliest]
    try:
        if rest and cluster.live_members(group):
            log.warning("group %s is not adopted: members of Kafka's own protocol hold it", group)
            found, unset = {}, []
        else:
            committed = cluster.committed(group) if rest else {}
            found = {tp: committed[tp] for tp in rest if tp in committed}
            unset = [tp for tp in rest if tp not in committed]
        found.update(cluster.earliest(ask.earliest))
    except ZkcoordError as error:
        log.warning("it cannot be found out where group %s begins: %s", group, error)
        found, unset = {}, []
    answer(msg.Resolved(ask.token, found, tuple(unset)))
