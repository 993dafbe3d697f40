"""Where a member begins: a partition for which nothing is stored in ZooKeeper begins where the same
group has committed in Kafka, and where nothing is committed either, where `auto_offset_reset` says.

What is found is written by the start ack, so Kafka is asked once in the life of a group: a group
that moves over skips nothing. An error is never taken for "nothing is committed": it is asked again
until there is an answer, and meanwhile the partition is not started. Nothing is adopted while live
members of Kafka's own protocol hold the group id: they would consume the same records. They are
looked for when the group is joined, and again before anything is adopted.

| initial_offsets | nothing is stored in ZooKeeper |
|---|---|
| kafka | the group's committed offset in Kafka; without one, `auto_offset_reset` |
| reset | `auto_offset_reset` |
| refuse | nothing |

Where nothing says where a partition begins, the member owns it without an offset, and poll raises
`NoStoredOffsetError` until the application has sought. (A member that has no such application gives
up: `begins_unset` is False.)

A partition of a topic that was deleted and made again begins at its first record in each case. A
new partition of a topic that grew has nothing committed anywhere: `auto_offset_reset`, or refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import kafka.errors
from kafka.structs import TopicPartition

from consumer.assignment.state import model_offsets
from consumer.core import messages as msg
from consumer.core.messages import FailureCode
from consumer.errors import described
from consumer.fetch.group_offsets import RETRY_MS, GroupOffsets
from zkcoord.core.model import TopicPartition as ModelPartition

log = logging.getLogger(__name__)

MEMBERS_NAMED_MAX = 5


class OffsetResetter(Protocol):
    """Looks up where partitions begin that have no offset anywhere."""

    def resolve(
        self,
        partitions: Collection[TopicPartition],
        done: Callable[[dict[TopicPartition, int]], None],
        earliest: Collection[TopicPartition] = (),
    ) -> bool:
        """`done` gets where these begin, as far as it can be found out now, on some thread; those
        in `earliest` at their first record. False: a policy is needed, and there is none.
        """
        ...


class StartingMember(Protocol):
    """What is asked of the member whose partitions begin; any thread, without a lock."""

    @property
    def closed(self) -> bool:
        """Whether the group was left."""
        ...

    @property
    def failure(self) -> Exception | None:
        """What ended the member."""
        ...

    @property
    def send(self) -> Callable[[msg.FromFetcher], None]:
        """Sends a message to the member's thread."""
        ...


class InitialOffsets:
    """Answers the `Resolve`s of one membership, on the member's thread or on the IO thread."""

    def __init__(
        self,
        member: StartingMember,
        resetter: OffsetResetter,
        offsets: GroupOffsets,
        initial: str,
        always: bool = False,
        begins_unset: bool = True,
    ) -> None:
        self.member = member
        # Decides for what has no offset anywhere.
        self.resetter = resetter
        # The group in Kafka.
        self.offsets = offsets
        # The option initial_offsets.
        self.initial = initial
        # Whether offsets are kept in Kafka alone: then Kafka is asked at each start, and `initial`
        # decides for what is not there. With "kafka" what is stored in ZooKeeper counts, as left by
        # a group that kept its offsets there before.
        self.always = always
        # Whether a partition is assigned of which nothing says where it begins.
        self.begins_unset = begins_unset
        # The error that was logged last, which is logged once; "" after an answer. IO thread.
        self._logged = ""

    # when the group is joined

    def check_group(self) -> None:
        """Ask, in the background, whether members of Kafka's own protocol hold the group: then
        this member gives up.
        """
        self.offsets.start(self._check_group_async).add_errback(
            lambda e: log.debug(
                "looking for members of group %s in Kafka ended: %s", self.offsets.group, e
            )
        )

    @property
    def _over(self) -> bool:
        """Whether the member has ended. Then its connections close under whoever asks, which is not
        worth a warning.
        """
        return self.member.closed or self.member.failure is not None

    async def _check_group_async(self) -> None:
        while not self._over:
            try:
                live = await self.offsets.live_members_async()
                self._logged = ""
                return self._refuse(live)
            except kafka.errors.GroupAuthorizationFailedError:
                return  # it matters only where something is adopted, which says so
            except kafka.errors.KafkaError as e:
                self._not_answered(e)
            await self.offsets.sleep(RETRY_MS / 1000)

    def _refuse(self, live: tuple[str, ...]) -> None:
        if live:
            self.member.send(
                msg.GiveUp(FailureCode.KAFKA_GROUP_ACTIVE, _active(self.offsets.group, live))
            )

    # where to begin

    def resolve(self, m: msg.Resolve) -> None:
        """Answer, now or later. On the member's thread."""
        earliest = {TopicPartition(*tp) for tp in m.earliest}
        wanted = [TopicPartition(*tp) for tp in m.partitions]
        open_ = [tp for tp in wanted if tp not in earliest]
        stored = _public(m.stored) if self.initial == "kafka" else {}
        if open_ and (self.initial == "kafka" or self.always):
            self.offsets.start(
                self._adopt_async, m.token, wanted, earliest, open_, stored
            ).add_errback(lambda e: self._broken(m.token, e))
        else:
            self._begin(m.token, wanted, earliest, {})

    async def _adopt_async(
        self,
        token: int,
        wanted: list[TopicPartition],
        earliest: Collection[TopicPartition],
        partitions: list[TopicPartition],
        stored: Mapping[TopicPartition, int],
    ) -> None:
        """The members first, then the offsets: who joins in between begins where this member does,
        and nothing is skipped.
        """
        try:
            live = await self.offsets.live_members_async()
            if live:
                return self._refuse(live)
            found = await self.offsets.committed_async(partitions)
            self._logged = ""
        except (
            kafka.errors.GroupAuthorizationFailedError,
            kafka.errors.TopicAuthorizationFailedError,
        ):
            otherwise = (
                ""
                if self.always
                else ", or set initial_offsets='reset' to begin where auto_offset_reset says"
            )
            return self.member.send(
                msg.GiveUp(
                    FailureCode.KAFKA_GROUP_DENIED,
                    f"Kafka does not let this client read what group {self.offsets.group} has"
                    f" committed: allow it Describe on the group and its topics{otherwise}",
                )
            )
        except kafka.errors.KafkaError as e:
            self._not_answered(e)
            return self.member.send(msg.Resolved(token, {}))
        if found and not self.always:
            log.info(
                "group %s goes on from its offsets in Kafka: %s", self.offsets.group, _listed(found)
            )
        self._begin(token, wanted, earliest, {**stored, **found})

    def _begin(
        self,
        token: int,
        wanted: list[TopicPartition],
        earliest: Collection[TopicPartition],
        found: Mapping[TopicPartition, int],
    ) -> None:
        """Answer with what was found, and for the others with what the policy says."""
        rest = [tp for tp in wanted if tp not in found]
        undecided = [tp for tp in rest if tp not in earliest]

        def answer(more: Mapping[TopicPartition, int], unset: Collection[TopicPartition]) -> None:
            self.member.send(
                msg.Resolved(
                    token,
                    model_offsets({**found, **more}),
                    tuple(ModelPartition(*tp) for tp in unset),
                )
            )

        if not rest:
            return answer({}, ())
        refused = self.initial == "refuse" and undecided
        if not refused and self.resetter.resolve(rest, lambda more: answer(more, ()), earliest):
            return
        if not self.begins_unset:
            why = unset_because(self.initial if refused else "", self.always)
            self.member.send(
                msg.GiveUp(
                    FailureCode.RESET_POLICY,
                    f"no offset is stored for {_named(undecided)}, and {why}",
                )
            )
            return
        known = [tp for tp in rest if tp in earliest]
        if not known:
            return answer({}, undecided)
        self.resetter.resolve(known, lambda more: answer(more, undecided), earliest)

    def _broken(self, token: int, error: Exception) -> None:
        """Not an error of Kafka's; neither is it an answer."""
        if not self._over:
            self._not_answered(error)
            self.member.send(msg.Resolved(token, {}))

    def _not_answered(self, error: Exception) -> None:
        said = described(error)
        level = logging.DEBUG if self._over or said == self._logged else logging.WARNING
        log.log(
            level,
            "Kafka does not say where group %s stands: %s; it is asked again, and what has no"
            " offset in ZooKeeper waits (initial_offsets='reset' begins without an answer)",
            self.offsets.group,
            said,
        )
        self._logged = said


def unset_because(initial: str, in_kafka: bool) -> str:
    """Why nothing may say where a partition begins, and what to do about it, by the option
    initial_offsets.
    """
    if initial == "refuse":
        other = "is stored in ZooKeeper" if in_kafka else "the group has committed in Kafka"
        return (
            "initial_offsets is 'refuse': seek in on_partitions_assigned, store offsets, or set"
            f" initial_offsets to 'kafka' (what {other}) or 'reset'"
        )
    return (
        "auto_offset_reset is 'none': seek in on_partitions_assigned, store offsets, or set"
        " auto_offset_reset to 'earliest' or 'latest'"
    )


def _active(group: str, live: tuple[str, ...]) -> str:
    more = len(live) - MEMBERS_NAMED_MAX
    named = ", ".join(live[:MEMBERS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return (
        f"group {group} has live members of Kafka's own protocol ({named}): stop them before this"
        " consumer is started (one that was killed stays for its session timeout), or use another"
        " group_id"
    )


def _public(offsets: Mapping[ModelPartition, int]) -> dict[TopicPartition, int]:
    return {TopicPartition(*tp): offset for tp, offset in offsets.items()}


def _named(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in partitions)


def _listed(offsets: Mapping[TopicPartition, int]) -> str:
    return " ".join(f"{tp.topic}-{tp.partition}={offset}" for tp, offset in sorted(offsets.items()))
