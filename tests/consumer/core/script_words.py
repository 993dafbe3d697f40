"""The words of transcripts: partitions, offsets and options as text."""

from __future__ import annotations

from collections.abc import Mapping

from consumer.core import events as ev
from consumer.core.topic_incarnations import TopicNote
from zkcoord.core.model import Malformed, TopicPartition


def tp_of(text: str) -> TopicPartition:
    """t-0 as a partition."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def tps_of(text: str) -> tuple[TopicPartition, ...]:
    """t-0,t-1 as partitions."""
    return tuple(tp_of(part) for part in text.split(",") if part and part != "nothing")


def offsets_of(words: tuple[str, ...]) -> dict[TopicPartition, int]:
    """t-0=5 t-1=6 as offsets."""
    return {
        tp_of(k): int(v) for word in words for k, v in (part.split("=") for part in word.split(","))
    }


def subscribed(action: ev.Join | ev.Resubscribe) -> str:
    """The topics, what the member says of itself, and how its membership before ended:
    `t1,t2 with DATA after session 20`.
    """
    topics = ",".join(sorted(action.subscription.topics))
    ended = action.ended if isinstance(action, ev.Join) else ""
    return (
        topics
        + (f" with {action.user_data}" if action.user_data else "")
        + (f" after {ended}" if ended else "")
    )


def shown(offsets: Mapping[TopicPartition, object]) -> str:
    """Offsets as t-0=5 t-1=6."""
    return " ".join(f"{tp}={value}" for tp, value in sorted(offsets.items())) or "nothing"


def listed(partitions: object) -> str:
    """Partitions, sorted."""
    return ",".join(str(tp) for tp in sorted(partitions)) or "nothing"  # type: ignore[call-overload]


def beside_of(word: str) -> tuple[str, TopicNote | Malformed]:
    """t~7+@2/90 as what is said of the offsets of t."""
    topic, _, rest = word.partition("~")
    if rest == "bad":
        return topic, Malformed("offsets", topic, "not an incarnation")
    said, _, stat = rest.partition("@")
    version, _, written = stat.partition("/")
    return topic, TopicNote(said.removesuffix("+"), said.endswith("+"), int(version), int(written))


def options_in(words: tuple[str, ...], name: str, default: int) -> int:
    """The value of `name=..` among the words."""
    return next((int(w.split("=")[1]) for w in words if w.startswith(f"{name}=")), default)


def word_in(words: tuple[str, ...], name: str) -> str | None:
    """The text of `name=..` among the words."""
    return next((w.split("=")[1] for w in words if w.startswith(f"{name}=")), None)
