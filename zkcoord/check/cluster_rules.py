"""What `zkcoord check` can find of topics, of brokers, and of where both are read from."""

from __future__ import annotations

from zkcoord.check.severity import ALL, CheckRule, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

CLUSTER_RULES: dict[str, CheckRule] = {
    "topic-unreadable": CheckRule(
        _E,
        ALL,
        "nobody can assign the partitions of this topic: groups that subscribe to it fail their"
        " rebalances",
        "look at the controller's log; the node is Kafka's",
    ),
    "partition-without-leader": CheckRule(
        _W,
        "",
        "records of this partition are neither written nor consumed at the moment",
        "start a broker that has a replica of it",
    ),
    "topic-being-deleted": CheckRule(
        _N,
        ALL,
        "a topic that groups subscribe to is marked for deletion; old consumers only warn, and"
        " go on",
        "have the groups subscribe to something else, or recreate the topic when it is gone",
    ),
    "broker-unreadable": CheckRule(
        _E,
        ALL,
        "no consumer can connect to this broker",
        "look at the broker's log; the node is Kafka's",
    ),
    "broker-no-plaintext": CheckRule(
        _N,
        ALL,
        "old consumers speak PLAINTEXT only: they cannot fetch from this broker",
        "add a PLAINTEXT listener for as long as there are old consumers",
    ),
    "broker-format": CheckRule(
        _N,
        "0.9.0.0",
        "consumers of exactly this version cannot read the node of a broker of 0.10 or newer",
        "move them to 0.9.0.1 or newer",
    ),
    # where topics and brokers come from
    "brokers-left-zookeeper": CheckRule(
        _E,
        "",
        "members find no broker, and no topic that is made, grown or deleted now is seen: all"
        " brokers are down, or none has ZooKeeper underneath any more (KRaft)",
        "start the brokers; where they are in KRaft mode, run coordinators that can reach them"
        " (--bootstrap-servers, --kafka-config), without --topic-source zookeeper",
    ),
    "no-broker-known": CheckRule(
        _E,
        "",
        "groups get nothing, and members find no broker but with --bootstrap-servers of their own",
        "give the coordinators --bootstrap-servers (and --kafka-config, for TLS and SASL)",
    ),
    "old-consumers-without-brokers": CheckRule(
        _E,
        ALL,
        "old consumers find no broker: they read /brokers/ids, where brokers in KRaft mode are not",
        "replace them before brokers are restarted in KRaft mode; zkcoord's members need no change",
    ),
    "source-unreadable": CheckRule(
        _E,
        "",
        "nobody knows of which cluster the topics are that zkcoord keeps",
        "delete the node: the coordinator that leads makes it anew",
    ),
    "source-of-another-cluster": CheckRule(
        _E,
        "",
        "groups are served the topics of a cluster that is not the one of this ensemble",
        "correct the coordinators' --bootstrap-servers and delete the node, which they make again;"
        " or delete /cluster/id, if that is of an earlier cluster",
    ),
    "source-unkept": CheckRule(
        _E,
        "",
        "nobody asks the brokers: no topic that is made, grown or deleted now is seen",
        "start a coordinator",
    ),
    "brokers-came-back": CheckRule(
        _W,
        "",
        "topics are still asked of brokers: the cluster went back to ZooKeeper, or runs in both",
        "if it went back, restart the coordinators with --topic-source zookeeper",
    ),
    "brokers-of-both-kinds": CheckRule(
        _N,
        "",
        "the cluster is on its way to KRaft; topics are taken from the brokers",
        "go on with the migration when all brokers of the step are up",
    ),
}
