"""What is wrong in one group. Pure: from what was read of it, and the topics that there are."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zkcoord.check.reader import At, GroupSeen
from zkcoord.check.registration_rules import Subscribed, judge
from zkcoord.check.rules import CheckFinding
from zkcoord.check.severity import Severity
from zkcoord.core.model import (
    GroupMode,
    Malformed,
    Member,
    Owner,
    Pattern,
    PatternKind,
    Topic,
    TopicPartition,
)
from zkcoord.core.shared import KEEPER
from zkcoord.zk.port import Denied, ZkError
from zkcoord.znodes import codec, names
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.patterns import INTERNAL_TOPICS, match_patterns

SHOWN_MAX = 8
FORBIDDEN = "ZooKeeper's ACL forbids it"
TOO_LARGE = "what it holds, or the names below it, are larger than any answer that is taken"
NOT_READ = ("not-readable", "answer-too-large")
Topics = Mapping[str, Topic | Malformed | None]
"""By name; None: its node has no data yet, or may not be read."""

TRANSIENT = frozenset(
    {"owner-not-registered", "owner-of-another-session", "member-gave-up", "partitions-unowned"}
)
"""What a group that is being rebalanced shows as well: it counts when it is there twice."""

_BELOW_0 = re.compile(rb"-0*[1-9][0-9]{0,18}")


@dataclass(frozen=True)
class GroupJudgement:
    """`old` and `ours`: how many members of each kind are registered; `stored`: offsets that can be
    read, of partitions that exist; `owners`: of existing partitions, whose node can be read.
    `offsets_known` False: there may be more offsets than `stored`.
    """

    findings: tuple[CheckFinding, ...]
    old: int
    ours: int
    stored: Mapping[TopicPartition, int]
    owners: Mapping[TopicPartition, Owner]
    offsets_known: bool = True
    has_mode: bool = False


def not_read(group: str, path: str, answer: Denied) -> CheckFinding:
    """That a node could not be read, by what there is to be done about it."""
    if answer.error is ZkError.TOO_LARGE:
        return CheckFinding("answer-too-large", group, path, TOO_LARGE)
    return CheckFinding("not-readable", group, path, FORBIDDEN)


def judge_group(group: GroupSeen, listed: Topics | None) -> GroupJudgement:
    """Everything that can be said of a group at one look. `listed` None: topics may not be listed,
    so nothing is said to be of none.
    """
    topics: Topics = (
        dict.fromkeys(at.topic for at in (*group.owners, *group.offsets))
        if listed is None
        else listed
    )
    found: list[CheckFinding] = [
        not_read(group.name, path, answer) for path, answer in group.denied.items()
    ]
    found += _as_a_whole(group)
    members = _members(group, found)
    old = {
        name: member
        for (home, name), member in members.items()
        if home == Layout.ISOLATED.name and not (member is not None and member.ours)
    }
    owners = _owners(group, topics, found)
    stored = _offsets(group, topics, found)
    if len(group.members) > 1:
        homes = {name: len(there) for name, there in group.members.items()}
        found.append(
            CheckFinding(
                "both-layouts",
                group.name,
                Layout.ISOLATED.ids(group.name),
                "members are registered in both:"
                f" {', '.join(f'{count} in {name}' for name, count in homes.items())}",
            )
        )
    ours = len(members) - len(old)
    if old:
        here = sum(home == Layout.ISOLATED.name for home, _ in members) - len(old)
        found += _together(group, sorted(old), here)
        if not group.has_offsets and group.is_whole:
            found.append(
                CheckFinding(
                    "no-offsets-node",
                    group.name,
                    Layout.ISOLATED.offsets(group.name),
                    "it does not exist",
                )
            )
        if (
            group.is_whole
            and group.paused is None
            and not any(
                finding.code.startswith("registration-") and finding.severity is Severity.ERROR
                for finding in found
            )
        ):
            found += _idle(group, members, owners, topics)
        found += _topics_of(
            group, {name: member for name, member in old.items() if member is not None}, topics
        )
    return GroupJudgement(
        tuple(
            sorted(found, key=lambda finding: (finding.severity.rank, finding.code, finding.node))
        ),
        len(old),
        ours,
        stored,
        owners,
        group.is_whole and all(topics.get(at.topic, True) for at in group.offsets),
        group.mode is not None,
    )


def _as_a_whole(group: GroupSeen) -> Iterator[CheckFinding]:
    for path, count in group.large:
        yield CheckFinding("group-too-large", group.name, path, f"it has {count} children")
    for path, why in group.unusable_modes.items():
        yield CheckFinding("mode-unusable", group.name, path, why)
    if group.paused is not None:
        path, by = group.paused
        yield CheckFinding("group-paused", group.name, path, f"by {names.shown(by)}")


def _members(
    group: GroupSeen, found: list[CheckFinding]
) -> dict[tuple[str, str], Subscribed | None]:
    """(home, name) -> what it subscribes to."""
    members: dict[tuple[str, str], Subscribed | None] = {}
    for home, there in group.members.items():
        for name, (path, node) in there.items():
            if name == KEEPER:
                continue
            judged = judge(name, node.data, node.stat)
            # no old consumer reads the other home
            problems = judged.problems if home == Layout.ISOLATED.name else ()
            found += [CheckFinding(code, group.name, path, what) for code, what in problems]
            value = codec.decode_registration(name, node.data, node.stat)
            if isinstance(value, Malformed) and not problems:
                found.append(CheckFinding("registration-left-out", group.name, path, value.reason))
            unfollowed = value.unfollowed if isinstance(value, Member) else ""
            if unfollowed and not any(code == "registration-not-re2" for code, _ in problems):
                found.append(CheckFinding("registration-unfollowed", group.name, path, unfollowed))
            members[home, name] = judged.subscribed
    return members


def _together(group: GroupSeen, old: Sequence[str], ours: int) -> Iterator[CheckFinding]:
    """Old consumers where nobody said that they belong."""
    kept_out = group.mode is not None and group.mode.kind is GroupMode.COORDINATED
    beside = group.mode is None and ours > 0
    if kept_out or beside:
        for name in old:
            yield CheckFinding(
                "old-consumer-kept-out" if kept_out else "old-consumer-beside-ours",
                group.name,
                Layout.ISOLATED.registration(group.name, name),
                "the group is in mode coordinated"
                if kept_out
                else f"{ours} members of zkcoord's are in the group, and it has no mode",
            )


def _owners(
    group: GroupSeen, topics: Topics, found: list[CheckFinding]
) -> dict[TopicPartition, Owner]:
    by_session = {
        node.stat.ephemeral_owner: name
        for there in group.members.values()
        for name, (_, node) in there.items()
    }
    owners: dict[TopicPartition, Owner] = {}
    for at in group.owners:
        if not _exists(at, topics):
            if at.topic in topics and not isinstance(topics[at.topic], Topic):
                continue  # nobody knows which partitions it has
            found.append(
                CheckFinding(
                    "owner-no-such-partition",
                    group.name,
                    at.path,
                    f"held as {names.shown(at.node.data.decode('utf-8', 'replace'))}",
                )
            )
            continue
        session = at.node.stat.ephemeral_owner
        if not session:
            found.append(
                CheckFinding(
                    "owner-persistent",
                    group.name,
                    at.path,
                    "it is not ephemeral and says"
                    f" {names.shown(at.node.data.decode('utf-8', 'replace'))}",
                )
            )
            continue
        owner = codec.decode_owner(at.path, at.node.data, at.node.stat)
        if isinstance(owner, Malformed):
            found.append(
                CheckFinding(
                    "owner-no-thread",
                    group.name,
                    at.path,
                    f"it says {names.shown(at.node.data.decode('utf-8', 'replace'))}",
                )
            )
            continue
        owners[TopicPartition(at.topic, int(at.child))] = owner
        holder = by_session.get(session)
        if holder is None and not group.may_hide_members:
            found.append(
                CheckFinding(
                    "owner-not-registered",
                    group.name,
                    at.path,
                    f"session 0x{session:x} holds it as {owner.thread} and is registered as nobody",
                )
            )
        elif holder is not None and holder != owner.thread.member:
            found.append(
                CheckFinding(
                    "owner-of-another-session",
                    group.name,
                    at.path,
                    f"it names {owner.thread}, and the session that holds it is registered as"
                    f" {holder}",
                )
            )
    return owners


def _offsets(
    group: GroupSeen, topics: Topics, found: list[CheckFinding]
) -> dict[TopicPartition, int]:
    stored: dict[TopicPartition, int] = {}
    per_topic: dict[tuple[str, str], list[str]] = defaultdict(list)
    for at in group.offsets:
        topic = topics.get(at.topic)
        value = codec.decode_offset(at.path, at.node.data)
        if at.topic not in topics:
            per_topic["offset-no-such-topic", at.topic].append(at.child)
        elif not _exists(at, topics):
            if isinstance(topic, Topic):
                per_topic["offset-no-such-partition", at.topic].append(at.child)
        elif _BELOW_0.fullmatch(at.node.data):
            per_topic["offset-outside-log", at.topic].append(
                f"{at.child} ({at.node.data.decode()})"
            )
        elif isinstance(value, Malformed):
            per_topic["offset-no-number", at.topic].append(
                f"{at.child} ({names.shown(at.node.data[:80].decode('utf-8', 'replace'))})"
            )
        else:
            stored[TopicPartition(at.topic, int(at.child))] = value
            if isinstance(topic, Topic) and at.node.stat.mzxid < topic.created:
                per_topic["offset-of-an-earlier-topic", at.topic].append(at.child)
        if at.node.stat.ephemeral_owner:
            per_topic["offset-ephemeral", at.topic].append(at.child)
    found += [
        CheckFinding(
            code, group.name, Layout.ISOLATED.offset_topic(group.name, topic), _partitions(children)
        )
        for (code, topic), children in per_topic.items()
    ]
    return stored


def _partitions(children: Sequence[str]) -> str:
    more = len(children) - SHOWN_MAX
    return f"partition{'s' if len(children) > 1 else ''} {', '.join(children[:SHOWN_MAX])}" + (
        f" and {more} more" if more > 0 else ""
    )


def _exists(at: At, topics: Topics) -> bool:
    topic = topics.get(at.topic)
    return (
        isinstance(topic, Topic) and names.is_number(at.child) and int(at.child) in topic.partitions
    )


def covered(subscribed: Subscribed, topics: Topics, internal: bool = False) -> frozenset[str]:
    """The existing topics of a subscription; none where its expression cannot be evaluated here. An
    expression covers Kafka's internal topics where that is asked for: most readers leave them out.
    """
    existing = frozenset(name for name, topic in topics.items() if isinstance(topic, Topic))
    if subscribed.regex is None:
        return existing & frozenset(subscribed.topics)
    pattern = Pattern(
        PatternKind.BLACK_LIST if subscribed.black else PatternKind.WHITE_LIST,
        subscribed.regex,
        internal,
    )
    return match_patterns([pattern], existing)[pattern]


def _idle(
    group: GroupSeen,
    members: Mapping[tuple[str, str], Subscribed | None],
    owners: Mapping[TopicPartition, Owner],
    topics: Topics,
) -> Iterator[CheckFinding]:
    """Partitions without an owner, and the old members that own nothing while there are such."""
    wants = {
        name: covered(member, topics)
        for (home, name), member in members.items()
        if home == Layout.ISOLATED.name and member is not None
    }
    held = {TopicPartition(at.topic, int(at.child)) for at in group.owners if _exists(at, topics)}
    free = [
        tp
        for name in sorted(frozenset().union(*wants.values()))
        for tp in _all_of(topics, name)
        if tp not in held
    ]
    if not free:
        return
    owning = {owner.thread.member for owner in owners.values()}
    free_topics = {tp.topic for tp in free}
    idle = [
        name
        for name, wanted in wants.items()
        if name not in owning and wanted & free_topics and not _is_ours(members, name)
    ]
    for name in sorted(idle):
        unowned = sum(tp.topic in wants[name] for tp in free)
        yield CheckFinding(
            "member-gave-up",
            group.name,
            Layout.ISOLATED.registration(group.name, name),
            f"it owns nothing, and {unowned} partitions that it subscribes to have no owner",
        )
    if not idle:
        named = ", ".join(map(str, free[:SHOWN_MAX])) + (" ..." if len(free) > SHOWN_MAX else "")
        yield CheckFinding(
            "partitions-unowned",
            group.name,
            Layout.ISOLATED.owners(group.name),
            f"{len(free)}: {named}",
        )


def _is_ours(members: Mapping[tuple[str, str], Subscribed | None], name: str) -> bool:
    member = members.get((Layout.ISOLATED.name, name))
    return member is not None and member.ours


def _all_of(topics: Topics, name: str) -> Iterable[TopicPartition]:
    topic = topics.get(name)
    return (
        [TopicPartition(name, number) for number in topic.partitions]
        if isinstance(topic, Topic)
        else ()
    )


def _topics_of(
    group: GroupSeen, old: Mapping[str, Subscribed], topics: Topics
) -> Iterator[CheckFinding]:
    """Different topics among old members, and Kafka's side of what they subscribe to."""
    wants = [
        wanted for member in old.values() if (wanted := covered(member, topics) - INTERNAL_TOPICS)
    ]
    if len(set(wants)) > 1:
        yield CheckFinding(
            "different-topics",
            group.name,
            Layout.ISOLATED.ids(group.name),
            f"{len(set(wants))} different sets of topics among {len(wants)} members",
        )
    for name, member in sorted(old.items()):
        internal = (
            covered(member, topics, internal=True) & INTERNAL_TOPICS
            if member.regex is not None
            else frozenset()
        )
        if internal:
            yield CheckFinding(
                "registration-internal-topics",
                group.name,
                Layout.ISOLATED.registration(group.name, name),
                f"{names.shown(member.regex or '')} covers {', '.join(sorted(internal))}",
            )
    for name in sorted({topic for member in old.values() for topic in member.topics}):
        topic = topics.get(name)
        if isinstance(topic, Malformed):
            yield CheckFinding(
                "topic-unreadable", group.name, Layout.ISOLATED.topic(name), topic.reason
            )
