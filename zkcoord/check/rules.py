"""All that `zkcoord check` can find: how bad it is, what it does to which version of the old
consumer, what helps, in whole sentences. What is particular to one case is the finding's `what`.
"""

from __future__ import annotations

from zkcoord.check.cluster_rules import CLUSTER_RULES
from zkcoord.check.severity import ALL, CheckRule, Severity
from zkcoord.core.value_type import value


@value
class CheckFinding:
    """One problem at one node. `group` "" where it belongs to no group."""

    code: str
    group: str
    node: str
    what: str

    @property
    def rule(self) -> CheckRule:
        """What is known about its kind."""
        return RULES[self.code]

    @property
    def severity(self) -> Severity:
        """Its rule's."""
        return self.rule.severity

    def to_json(self) -> dict[str, str | None]:
        """All that is known about it."""
        rule = self.rule
        return {
            "severity": rule.severity.value,
            "code": self.code,
            "group": self.group or None,
            "node": self.node,
            "what": self.what,
            "versions": rule.versions or None,
            "effect": rule.effect,
            "fix": rule.fix,
        }


SCALA_JSON = "0.8.0 - 0.11.0"
JACKSON = "1.0.0 - 1.1.1"
WHOLE_GROUP = "0.10.2 - 1.1.1"
BACKSLASH = "1.0.1 - 1.1.1"
_UNKNOWN = "nothing is known of what is there, and the command ends with status 1"
HEAD = "| problem | how bad | versions | what it does | what helps |\n|---|---|---|---|---|\n"
MEND = "zkcoord acl apply --execute, with the roles that the coordinators have (docs/security.md)"
_KILLS = (
    "every rebalance of the group's old consumers fails, four times; then each of them owns nothing"
    " and stays registered, until the node is gone and the members change once more"
)
_GO = (
    "delete the node, and keep the client that wrote it out of this group: it registers again"
    " otherwise"
)
_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

RULES: dict[str, CheckRule] = {
    # registrations
    "registration-no-json": CheckRule(
        _E, ALL, _KILLS, f"{_GO} (pykafka writes the topic's bare name)"
    ),
    "registration-json-before-1.0": CheckRule(
        _E, SCALA_JSON, f"{_KILLS}; 1.0 and newer read it", _GO
    ),
    "registration-json-since-1.0": CheckRule(
        _E, JACKSON, f"{_KILLS}; those before 1.0 read it", _GO
    ),
    "registration-no-pattern": CheckRule(_E, ALL, _KILLS, _GO),
    "registration-no-subscription": CheckRule(_E, ALL, _KILLS, _GO),
    "registration-no-streams": CheckRule(_E, ALL, _KILLS, _GO),
    "registration-empty-topic": CheckRule(_E, WHOLE_GROUP, _KILLS, _GO),
    "registration-bad-regex": CheckRule(
        _E,
        ALL,
        _KILLS,
        "have its consumer subscribe with an expression that Java can compile; until then stop it",
    ),
    "registration-large-number": CheckRule(
        _E,
        SCALA_JSON,
        f"{_KILLS}; 1.0 and newer read it",
        "stop the client that writes numbers beyond 2^31-1 or with a fraction (go_kafka_client's"
        " timestamp), or move the group's old consumers to 1.0 or newer",
    ),
    "registration-persistent": CheckRule(
        _E,
        ALL,
        "it stays when its consumer ends: its share of the partitions is given to nobody who"
        " consumes",
        "delete the node once its consumer has ended",
    ),
    "registration-escaped-twice": CheckRule(
        _E,
        BACKSLASH,
        "the consumer that wrote it covers no topic and owns nothing, without a word in its log",
        "list the topics, use an expression without a backslash ([.] for \\.), or run that consumer"
        " with 1.0.0 or older",
    ),
    "registration-several-patterns": CheckRule(
        _W,
        ALL,
        "a pattern's registration has one expression: which of these counts differs from reader to"
        " reader, so two members may own the same partition or nobody does",
        "join them with | into one expression",
    ),
    "registration-rewritten": CheckRule(
        _W,
        ALL,
        "old consumers did not notice the change: until somebody joins or leaves they go by what it"
        " said before",
        "have its consumer register anew: delete and create, never set",
    ),
    "registration-name": CheckRule(
        _W,
        ALL,
        "it has characters that cannot be seen, or is too long: zkcoord leaves it out",
        "give that consumer a consumer id of printable characters",
    ),
    "registration-not-re2": CheckRule(
        _E,
        "",
        "its consumer takes partitions by Java's rules, and zkcoord cannot say which: the group"
        " cannot be mixed, and where it is, zkcoord's members get only what this consumer does not"
        " take",
        "write the expression without what only Java knows (a white list of names that do not begin"
        " with __, say, as black_list of __.*), or stop that consumer",
    ),
    "registration-unfollowed": CheckRule(
        _E,
        "",
        "old consumers can read it and zkcoord cannot, so that nobody here knows what its consumer"
        " takes: the group cannot be mixed, and where it is, zkcoord's members get nothing",
        "have its consumer subscribe to less at a time, or stop it",
    ),
    "registration-internal-topics": CheckRule(
        _N,
        ALL,
        "before 0.11 members consume __transaction_state by such an expression, newer ones do not,"
        " and before 0.8.2 __consumer_offsets, too: members of both kinds never agree who owns"
        " what",
        "name the topics or narrow the expression, or keep members of those releases out of one"
        " group",
    ),
    "registration-left-out": CheckRule(
        _W,
        "",
        "zkcoord cannot use this registration and leaves its member out: it gets nothing",
        "stop the client that writes it, or correct what it subscribes to",
    ),
    # owners
    "owner-persistent": CheckRule(
        _E,
        ALL,
        "nobody can own this partition: who should fails four times, then owns nothing at all",
        "delete the node",
    ),
    "owner-no-thread": CheckRule(
        _E,
        ALL,
        "nobody whose thread it does not name can own this partition, and kafka-consumer-groups.sh"
        " --zookeeper --describe ends with an exception where it has no dash",
        "stop the client that writes it (pykafka and others use [leader]-[partition] and names of"
        " their own)",
    ),
    "owner-not-registered": CheckRule(
        _E,
        ALL,
        "a session that is no member holds the partition: who should own it fails four times, then"
        " owns nothing at all, if that lasts for 8 seconds",
        "find the process that holds this session and stop it; deleting the node lets two consume"
        " the partition",
    ),
    "owner-of-another-session": CheckRule(
        _E,
        ALL,
        "the thread that it names takes it for its own and goes on consuming when it vanishes;"
        " whoever comes next consumes the same partition beside it",
        "stop the process whose session holds it, then restart the consumer that it names",
    ),
    "owner-no-such-partition": CheckRule(
        _W,
        ALL,
        "it is ignored by rebalances; some clients of that time number partitions as"
        " [broker]-[partition]",
        "stop the client that writes it",
    ),
    # members
    "member-gave-up": CheckRule(
        _E,
        ALL,
        "a member that failed four rebalances in a row: it is registered, owns nothing, and its"
        " share of the partitions is consumed by nobody until somebody joins or leaves",
        "create and delete any child of its ids node in one transaction, or restart one member:"
        " that has all of them try again; in mode mixed zkcoord does it by itself",
    ),
    "partitions-unowned": CheckRule(
        _W,
        ALL,
        "these partitions were consumed by nobody at this moment: a rebalance under way, or the"
        " members cannot agree (different strategies, or roundrobin of different versions)",
        "look again, or with --for 15; if it stays: give all members one"
        " partition.assignment.strategy, and roundrobin only among members of 0.8.2 - 0.11 or only"
        " of 1.0 - 1.1",
    ),
    "different-topics": CheckRule(
        _N,
        ALL,
        "members subscribe to different topics, and every join or leave stops all of them; versions"
        " before 0.10.2 cannot use roundrobin so",
        "give each set of topics a group of its own",
    ),
    "old-consumer-kept-out": CheckRule(
        _E,
        ALL,
        "an old consumer in a group that is coordinated: zkcoord keeps it out (its rebalances fail,"
        " with the reason in its log), and it consumes nothing",
        "stop it, or have both share the group: zkcoord groups mode GROUP mixed",
    ),
    "old-consumer-beside-ours": CheckRule(
        _E,
        "",
        "old consumers and members of zkcoord's are in one group and nobody said that they share"
        " it: nothing is commanded, and what a member that ends has had is owned by nobody or goes"
        " to an old consumer",
        "stop those that are there by mistake, or have both share the group: zkcoord groups mode"
        " GROUP mixed",
    ),
    # offsets
    "offset-no-number": CheckRule(
        _E,
        ALL,
        "the old member that is to own this partition fails its rebalances with a"
        " NumberFormatException, four times, then owns nothing; one of zkcoord's says so, and"
        " leaves the partition alone",
        "stop the group, then set the node to the next offset in decimal digits, or delete it",
    ),
    "offset-ephemeral": CheckRule(
        _E,
        ALL,
        "the offset is forgotten when the session that wrote it ends; consumers then begin where"
        " auto.offset.reset says",
        "stop the group, then delete the node and create it again, persistent, with the same value",
    ),
    "offset-went-back": CheckRule(
        _E,
        ALL,
        "a member that had lost this partition stored an older offset over its new owner's: records"
        " are delivered again",
        "look for long pauses (garbage collection, SIGSTOP, a suspended machine) of the group's"
        " members; old consumers cannot be fenced, coordinated ones are",
    ),
    "offsets-only-in-kafka": CheckRule(
        _W,
        "0.8.2 - 1.1.1",
        "the group's offsets are in Kafka (offsets.storage=kafka): old consumers and tools that"
        " look in ZooKeeper find none, and begin where auto.offset.reset says; zkcoord's members"
        " adopt them with initial_offsets=kafka, the default, and only if no member of Kafka's own"
        " protocol is live",
        "zkcoord migrate apply 1 --take highest stores them in ZooKeeper, too",
    ),
    "offset-outside-log": CheckRule(
        _E,
        ALL,
        "the consumer that gets this partition begins where auto.offset.reset says: with largest,"
        " the default, it skips what is there",
        "stop the group and set the offset: zkcoord offsets reset",
    ),
    "offset-of-an-earlier-topic": CheckRule(
        _W,
        ALL,
        "it was stored before the topic was made: old consumers skip or repeat records of the new"
        " topic; zkcoord begins at its first record",
        "stop the group and delete the node, or zkcoord offsets reset",
    ),
    "offset-no-such-partition": CheckRule(
        _W,
        ALL,
        "nobody reads it: the topic has no such partition (0.7 stored [broker]-[partition])",
        "zkcoord offsets delete once the group does not need it (such a node of 0.7: by hand)",
    ),
    "offset-no-such-topic": CheckRule(
        _N,
        ALL,
        "nobody reads it: Kafka has no such topic",
        "delete the node once the group does not need it",
    ),
    # groups
    "both-layouts": CheckRule(
        _E,
        "",
        "members of the two layouts commit to the same offsets without knowing of each other:"
        " zkcoord leaves the group alone",
        "stop the members of one of the layouts",
    ),
    "live-in-kafka": CheckRule(
        _E,
        "0.8.2 - 1.1.1",
        "members of Kafka's own protocol hold this group id: they consume the same records; commits"
        " of old consumers with offsets.storage=kafka are refused without a word, with dual commit"
        " in both stores",
        "stop one of the two, or give it another group id",
    ),
    "draft-layout": CheckRule(
        _W,
        ALL,
        "old tools take it for a group: kafka-consumer-groups.sh lists it, and ExportZkOffsets"
        " without --group ends there with nothing written",
        "run zkcoord with --layout isolated on this ensemble",
    ),
    "epoch-unusable": CheckRule(
        _E,
        "",
        "no coordinator leads once the present one has gone: each waits, and says so",
        'set the node\'s data to nothing (set PATH "" in zkCli.sh); a coordinator fills it',
    ),
    "seat-persistent": CheckRule(
        _W,
        "",
        "a coordinator's node is ephemeral, so this is none: whoever leads next deletes it, or,"
        " where it has children, cannot lead",
        "delete the node, unless it is the group of old consumers of that name; then run zkcoord in"
        " the layout whose seat is free",
    ),
    "seat-unreadable": CheckRule(
        _E,
        "",
        "no coordinator made this node, and no coordinator leads while it is there: each waits, and"
        " says so",
        "end the client that has this session, or delete the node (zkcoord coordinator step-down)",
    ),
    "no-offsets-node": CheckRule(
        _N,
        ALL,
        "kafka-consumer-groups.sh --zookeeper --delete --topic ends with an exception at any group"
        " without this node",
        "create it, empty, or delete the group's node if the group is gone",
    ),
    "group-paused": CheckRule(
        _N, "", "an operator paused it: nobody is to own anything", "zkcoord groups resume GROUP"
    ),
    "mode-unusable": CheckRule(_W, "", "no coordinator follows it", "mend it, or say it anew"),
    "left-alone": CheckRule(
        _E,
        "",
        "coordinators with roles leave the group alone: nobody is assigned anything, and no request"
        " or mode is taken up",
        MEND,
    ),
    "client-led-left-alone": CheckRule(
        _E,
        "",
        "nobody knows whether clients lead the group: coordinators do not serve it, gateways answer"
        " that no coordinator is available, and tools change nothing of it",
        MEND,
    ),
    "client-led-none-served": CheckRule(
        _W, "", "coordinators with roles serve no group at all that clients lead", MEND
    ),
    "client-led-unreadable": CheckRule(
        _W,
        "",
        "it counts for nothing: coordinators take the group for one without members, whose clients"
        " have to join again",
        "once clients have joined again it is written anew; else zkcoord groups delete GROUP",
    ),
    "group-name": CheckRule(
        _W,
        "",
        "it stands among the groups, and no group can have this name: no coordinator serves it, no"
        " list has it, and no command takes it",
        "have its consumers use another group id; a name of printable characters, of at most 249"
        " bytes, that is no part of the layout. Then delete the node",
    ),
    "group-too-large": CheckRule(
        _W,
        "",
        "it was not listed, so nothing in it was judged",
        "delete what is not needed below this node",
    ),
    # Kafka's side
    **CLUSTER_RULES,
    "not-readable": CheckRule(
        _W,
        "",
        f"this client may not read it: {_UNKNOWN}",
        "give credentials that may (--zookeeper-user)",
    ),
    "answer-too-large": CheckRule(
        _W,
        "",
        f"no answer holds it: {_UNKNOWN}",
        "delete what is nobody's there",
    ),
}

KILLING = frozenset(code for code, rule in RULES.items() if rule.effect.startswith(_KILLS))
"""Registrations that old consumers of some releases die of."""


def markdown() -> str:
    """The table for the documentation."""
    row = "| `{}` | {} | {} | {} | {} |\n".format
    rows = (row(c, r.severity.value, r.versions or "-", r.effect, r.fix) for c, r in RULES.items())
    return HEAD + "".join(rows)
