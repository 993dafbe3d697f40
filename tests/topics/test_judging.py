"""What is believed of what brokers say, which may be behind."""

from __future__ import annotations

from zkcoord.topics.judging import (
    ClusterAnswer,
    JudgingTimes,
    KnownTopic,
    SaidSince,
    SaidTopic,
    TopicJudge,
    TopicNews,
)

TIMES = JudgingTimes(confirm_times=3, confirm_ms=1_000, past_factor=10)
STEP_MS = 500
SECOND_STEPS = TIMES.confirm_ms // STEP_MS


class Scene:
    """A cluster of so many brokers, asked one after the other, every half a second."""

    def __init__(self, brokers: int = 1, known: dict[str, KnownTopic] | None = None) -> None:
        self.judge = TopicJudge(known, TIMES)
        self.brokers = brokers
        self.now = 0
        self.asked = 0

    def says(self, said: SaidTopic | None, broker: int | None = None) -> TopicNews | None:
        """One answer about `t`."""
        self.now += STEP_MS
        self.asked += 1
        who = self.asked % self.brokers if broker is None else broker
        answer = ClusterAnswer(
            who,
            self.brokers,
            {} if said is None else {"t": said},
            frozenset({"t"}) if said is None else frozenset(),
        )
        news = self.judge.answered(self.now, answer)
        return news[0] if news else None

    def until_told(self, said: SaidTopic | None, at_most: int = 100) -> tuple[int, TopicNews]:
        """How often it is said until it is believed."""
        for n in range(1, at_most + 1):
            news = self.says(said)
            if news is not None:
                return n, news
        raise AssertionError(f"it is not believed after {at_most} answers")


def known(topic_id: str = "a", partitions: int = 3, **more: object) -> KnownTopic:
    """A topic."""
    return KnownTopic(topic_id, partitions, **more)  # type: ignore[arg-type]  # as they are named


def test_a_topic_that_nobody_knows_is_there_at_once() -> None:
    scene = Scene()
    assert scene.says(None) is None
    assert scene.says(SaidTopic("a", 3)) == TopicNews("t", known())
    assert scene.says(SaidTopic("a", 3)) is None


def test_partitions_become_more_at_once_and_never_fewer() -> None:
    scene = Scene(known={"t": known()})
    assert scene.says(SaidTopic("a", 5)) == TopicNews("t", known(partitions=5))
    for _ in range(50):
        assert scene.says(SaidTopic("a", 3)) is None
    assert scene.judge.known["t"].partitions == 5


def test_a_topic_is_gone_when_that_is_said_again_and_again() -> None:
    scene = Scene(known={"t": known()})
    times, news = scene.until_told(None)
    assert times == TIMES.confirm_times and news == TopicNews("t", known(gone=True))
    assert scene.says(None) is None and not scene.judge.doubted


def test_who_says_otherwise_meanwhile_is_heard() -> None:
    scene = Scene(known={"t": known()})
    for _ in range(20):
        assert scene.says(None) is None and scene.judge.doubted == {"t"}
        assert scene.says(None) is None
        assert scene.says(SaidTopic("a", 3)) is None and not scene.judge.doubted


def test_one_broker_alone_is_not_believed_where_there_are_others() -> None:
    scene = Scene(brokers=3, known={"t": known()})
    for _ in range(10):
        assert scene.says(None, broker=1) is None
    assert scene.says(None, broker=2) is not None


def test_one_broker_alone_is_believed_later_where_the_others_do_not_answer() -> None:
    scene = Scene(brokers=3, known={"t": known()})
    heard = [scene.says(None, broker=1) for _ in range(TIMES.alone_factor * SECOND_STEPS + 1)]
    assert heard[-1] == TopicNews("t", known(gone=True)) and not any(heard[:-1])


def test_a_topic_that_was_made_anew_is_another() -> None:
    scene = Scene(brokers=2, known={"t": known()})
    times, news = scene.until_told(SaidTopic("b", 1))
    assert times == TIMES.confirm_times
    assert news == TopicNews("t", known("b", 1, former=("a",)), anew=True)


def test_what_was_before_is_not_believed_soon() -> None:
    scene = Scene(known={"t": known("b", 1, former=("a",))})
    times, news = scene.until_told(SaidTopic("a", 3))
    assert times == TIMES.confirm_times * TIMES.past_factor
    assert news == TopicNews("t", known("a", 3, former=("b",)), anew=True)


def test_a_broker_that_is_behind_brings_no_topic_back() -> None:
    scene = Scene(known={"t": known(gone=True)})
    for _ in range(TIMES.confirm_times * TIMES.past_factor - 1):
        assert scene.says(SaidTopic("a", 3)) is None
    assert scene.says(SaidTopic("a", 3)) == TopicNews("t", known(), anew=True)


def test_a_topic_that_comes_again_is_another() -> None:
    scene = Scene(known={"t": known(gone=True)})
    news = scene.says(SaidTopic("b", 2))
    assert news == TopicNews("t", known("b", 2, former=("a",)), anew=True), "nobody has known it"


def test_brokers_that_know_no_ids() -> None:
    scene = Scene(known={"t": known("", 3)})
    assert scene.says(SaidTopic("", 4)) == TopicNews("t", known("", 4))
    assert scene.says(SaidTopic("a", 4)) == TopicNews("t", known("a", 4)), "it has one now"
    assert scene.says(SaidTopic("", 4)) is None, "one that does not know it says nothing else"
    assert scene.until_told(None)[1].topic.gone


def test_of_many_earlier_ones_the_latest_ids_are_kept() -> None:
    scene = Scene(known={"t": known("0", 1)})
    for n in range(1, 30):
        scene.until_told(SaidTopic(str(n), 1))
    assert scene.judge.known["t"].former == tuple(str(n) for n in range(9, 29))


class Whole:
    """Answers of all topics, by two brokers."""

    def __init__(self) -> None:
        self.judge = TopicJudge(None, TIMES)
        self.now = self.asked = 0
        self.all: dict[str, SaidTopic] = {}

    def says(self, topics: dict[str, SaidTopic]) -> list[str]:
        """The names of what is new by it."""
        self.now += STEP_MS
        self.asked += 1
        before, self.all = self.all, topics
        named = before.keys() | topics.keys()
        since = SaidSince(before, frozenset(n for n in named if before.get(n) != topics.get(n)))
        answer = ClusterAnswer(self.asked % 2, 2, topics, since=since)
        return [one.name for one in self.judge.answered(self.now, answer)]


def test_of_all_topics_those_are_looked_at_that_are_not_as_before() -> None:
    whole = Whole()
    many = {f"t{n}": SaidTopic(str(n), 1) for n in range(100)}
    assert len(whole.says(many)) == 100
    looked: list[str] = []
    judged = whole.judge._said
    whole.judge._said = lambda *told: looked.append(told[2]) or judged(*told)  # type: ignore[assignment, method-assign, func-returns-value]  # to be counted
    assert whole.says({**many, "t7": SaidTopic("7", 2), "new": SaidTopic("n", 1)}) == ["new", "t7"]
    assert sorted(looked) == ["new", "t7"]
    looked.clear()
    assert whole.says(many) == [] and looked == ["t7"]
    assert whole.judge.unmentioned() == ["new"], "it may be hidden, or gone"


def test_a_doubt_is_looked_at_whether_anything_has_changed_or_not() -> None:
    whole = Whole()
    whole.says({"t": SaidTopic("a", 1), "u": SaidTopic("b", 1)})
    another = {"t": SaidTopic("c", 1), "u": SaidTopic("b", 1)}
    heard = [whole.says(another) for _ in range(TIMES.confirm_times)]
    assert heard == [[], [], ["t"]]


def test_after_an_answer_that_was_not_heard_all_are_looked_at() -> None:
    whole = Whole()
    whole.says({"t": SaidTopic("a", 1)})
    whole.all = {"t": SaidTopic("a", 2)}  # which somebody else was told
    assert whole.says(dict(whole.all)) == ["t"] and whole.judge.known["t"].partitions == 2


def test_what_all_brokers_say_is_looked_at_until_it_is_known() -> None:
    """Also where one that is behind has taken the doubt away in between (sources 122)."""
    judge = TopicJudge({"t": KnownTopic("a", 1)})
    said = {"t": SaidTopic("b", 1)}

    def all_say(now: int, since: SaidSince) -> None:
        judge.answered(now, ClusterAnswer(1, 2, said, since=since))

    all_say(0, SaidSince({}, frozenset({"t"})))
    judge.answered(100, ClusterAnswer(2, 2, {"t": SaidTopic("a", 1)}))
    assert not judge.doubted
    for now in range(1_000, 15_000, 500):
        all_say(now, SaidSince(said, frozenset()))
    assert judge.known["t"] == KnownTopic("b", 1, ("a",))
