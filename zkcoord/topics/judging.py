"""What of a cluster's topics is so, from what its brokers say one after the other. Pure.

A broker may be behind: one that was paused, or has just started, says for a while what was so
before. So only what cannot be of the past is believed at once: a topic that nobody has heard of,
and partitions that are more. That a topic is gone, or another one of its name, is believed when it
has been said again and again: by another broker, where there is one that answers, and by none
otherwise meanwhile. Partitions of a topic never become fewer.

Topics are told apart by their ids (KIP-516, Kafka 2.8 and later); where there are none, only one
that was gone in between is another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

FORMER_MAX = 20
"""Of so many earlier topics of a name the ids are kept."""


@dataclass(frozen=True, slots=True)
class SaidTopic:
    """What a broker says of a topic: its id ("": it knows none), and how many partitions it has."""

    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class SaidSince:
    """The topics of an answer that named all, and by which names the next one is another."""

    before: Mapping[str, SaidTopic]
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """What a broker has answered. `missing`: what it was asked for and does not know; what it may
    not say, or cannot say now, is in neither. `brokers`: how many there are. `since`: it was asked
    for all, and this is how it differs from an answer before.
    """

    broker: int
    brokers: int
    topics: Mapping[str, SaidTopic] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    since: SaidSince | None = None


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic as it is believed to be. `former`: the ids of earlier ones of its name, the latest
    last. `gone`: there is none now. `found`: it was there before anybody looked, so that whoever
    owns partitions of it by its name owns those of this one, unless that was before `created`, the
    transaction of Kafka's node (0: nobody knows).
    """

    topic_id: str
    partitions: int
    former: tuple[str, ...] = ()
    gone: bool = False
    found: bool = False
    created: int = 0

    def is_unheard_of(self, said: SaidTopic) -> bool:
        """Whether it is certainly none that there has been."""
        return bool(said.topic_id and self.topic_id) and said.topic_id not in (
            self.topic_id,
            *self.former,
        )

    def followed_by(self, said: SaidTopic) -> KnownTopic:
        """Another one of its name."""
        former = tuple(i for i in (*self.former, self.topic_id) if i and i != said.topic_id)
        return KnownTopic(said.topic_id, said.partitions, former[-FORMER_MAX:])


@dataclass(frozen=True, slots=True)
class TopicNews:
    """What is so from now on. `anew`: the topic is another one than that which was known."""

    name: str
    topic: KnownTopic
    anew: bool = False


@dataclass(frozen=True, slots=True)
class JudgingTimes:
    """`confirm_times` answers, over `confirm_ms`, make a change so that may be of the past; for one
    to the past itself (an id that another has followed, a topic that was gone) it takes
    `past_factor` times as much, and `alone_factor` times as long where one broker alone has said
    it.
    """

    confirm_times: int = 3
    confirm_ms: int = 1_000
    past_factor: int = 10
    alone_factor: int = 10


@dataclass(frozen=True, slots=True)
class Doubt:
    """What was said instead of what is known, and since when. `said` None: nothing is there."""

    said: SaidTopic | None
    since_ms: int
    times: int
    brokers: frozenset[int]

    def again(self, broker: int) -> Doubt:
        """Once more."""
        return replace(self, times=self.times + 1, brokers=self.brokers | {broker})


class TopicJudge:
    """See the module. `known` is what others have found out before. Of an answer of all topics only
    those are looked at that are not as in the one that was looked at before, and doubted ones.
    """

    def __init__(
        self, known: Mapping[str, KnownTopic] | None = None, times: JudgingTimes = JudgingTimes()
    ) -> None:
        self.known: dict[str, KnownTopic] = dict(known or {})
        self._times = times
        self._doubts: dict[str, Doubt] = {}
        self._all: Mapping[str, SaidTopic] | None = None
        self._unsaid: set[str] = set()  # topics that are there, and may not be among all
        self._unlike: set[str] = (
            set()
        )  # others among all than what is known, whoever else was asked

    @property
    def doubted(self) -> frozenset[str]:
        """Topics of which something else was said: to be asked for again soon."""
        return frozenset(self._doubts)

    def unmentioned(self) -> list[str]:
        """Topics that are there, and of which the last answer of all topics says nothing: whether
        they are missing is answered only where they are asked for.
        """
        said = self._all or {}
        self._unsaid = {
            name for name in self._unsaid if not self.known[name].gone and name not in said
        }
        return sorted(self._unsaid)

    def answered(
        self, now_ms: int, answer: ClusterAnswer, are_found: bool = False
    ) -> list[TopicNews]:
        """What is new by an answer, in order of names. `are_found`: what nobody has heard of was
        there before anybody looked.
        """
        looked_at = self._to_look_at(answer)
        found = [
            self._said(now_ms, answer, name, answer.topics[name], are_found) for name in looked_at
        ]
        if answer.since is not None:
            self._unlike = {name for name in looked_at if self._is_unlike(name, answer)}
        found += [self._said(now_ms, answer, name, None, are_found) for name in answer.missing]
        return sorted((one for one in found if one is not None), key=lambda one: one.name)

    def _is_unlike(self, name: str, answer: ClusterAnswer) -> bool:
        known, said = self.known[name], answer.topics[name]
        return known.gone or not _is_same(known, said) or known.partitions != said.partitions

    def seen(self, name: str, topic: KnownTopic) -> TopicNews | None:
        """A topic as Kafka's own node said while that counted: it is so."""
        known = self.known.get(name)
        said = SaidTopic(topic.topic_id, topic.partitions)
        if known is None or known.gone or not _is_same(known, said):
            former = known.followed_by(said).former if known is not None else ()
            return self._believe(name, replace(topic, former=former), anew=True)
        return self._as_far(name, known, said)

    def _to_look_at(self, answer: ClusterAnswer) -> Collection[str]:
        if answer.since is None:
            return answer.topics
        before, self._all = self._all, answer.topics
        if answer.since.before is not before:
            self._unsaid = set(self.known)
            return answer.topics
        self._unsaid |= answer.since.names & self.known.keys()
        return (answer.since.names | self._doubts.keys() | self._unlike) & answer.topics.keys()

    def _said(
        self,
        now_ms: int,
        answer: ClusterAnswer,
        name: str,
        said: SaidTopic | None,
        are_found: bool,
    ) -> TopicNews | None:
        known = self.known.get(name)
        if known is None:
            if said is None:
                return None
            return self._believe(name, KnownTopic(said.topic_id, said.partitions, found=are_found))
        if said is None and not known.gone:
            new, is_past = replace(known, gone=True), False
        elif said is None or (not known.gone and _is_same(known, said)):
            self._doubts.pop(name, None)
            return None if said is None else self._as_far(name, known, said)
        elif known.gone and known.is_unheard_of(said):
            return self._believe(name, known.followed_by(said), anew=True)
        else:
            new = known.followed_by(said)
            is_past = said.topic_id in known.former or (known.gone and _is_same(known, said))
        if not self._confirmed(now_ms, answer, name, said, is_past):
            return None
        return self._believe(name, new, anew=said is not None)

    def _as_far(self, name: str, known: KnownTopic, said: SaidTopic) -> TopicNews | None:
        """The same topic: it may have more partitions, or an id by now."""
        new = replace(
            known,
            topic_id=known.topic_id or said.topic_id,
            partitions=max(known.partitions, said.partitions),
        )
        return None if new == known else self._believe(name, new)

    def _believe(self, name: str, topic: KnownTopic, anew: bool = False) -> TopicNews:
        self._doubts.pop(name, None)
        self._unsaid.add(name)
        self.known[name] = topic
        return TopicNews(name, topic, anew)

    def _confirmed(
        self, now_ms: int, answer: ClusterAnswer, name: str, said: SaidTopic | None, is_past: bool
    ) -> bool:
        doubt = self._doubts.get(name)
        if doubt is None or _what(doubt.said) != _what(said):
            doubt = Doubt(said, now_ms, 0, frozenset())
        doubt = self._doubts[name] = doubt.again(answer.broker)
        factor = self._times.past_factor if is_past else 1
        several = len(doubt.brokers) >= min(2, answer.brokers)
        for_ms = self._times.confirm_ms * factor * (1 if several else self._times.alone_factor)
        return (
            doubt.times >= self._times.confirm_times * factor and now_ms >= doubt.since_ms + for_ms
        )


def _is_same(known: KnownTopic, said: SaidTopic) -> bool:
    """Whether they are one topic as far as can be told."""
    return not (known.topic_id and said.topic_id) or known.topic_id == said.topic_id


def _what(said: SaidTopic | None) -> str | None:
    """What a doubt is about: its partitions may become more meanwhile."""
    return None if said is None else said.topic_id
