"""Every option of `KafkaConsumer`: kafka-python's, with their meaning, and those of the ZooKeeper
side, named after the old consumer's.

`DEFAULT_CONFIG` is the whole table. An option that is not in it is refused with the nearest one
that is; combinations that contradict each other are refused before anything is opened.

Kafka's own group protocol is not spoken, which changes the meaning of three options:
`session_timeout_ms` is another name of `zookeeper_session_timeout_ms`; `heartbeat_interval_ms` is
accepted and has no effect (proofs of membership are due every third of a lease);
`partition_assignment_strategy` lists names of assignors of the coordinator (range, roundrobin,
sticky, or a custom one's), and kafka-python's assignor classes are taken by name. A name that the
coordinator does not know is refused by it, when the member joins.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import kafka

from consumer.certificates import TLS_PROTOCOLS, broker_context
from consumer.errors import ConsumerOptionError
from consumer.librdkafka_settings import check_mappable
from consumer.option_types import quoted, read_option
from zkcoord.words import is_utf8
from zkcoord.zk.acl.table import roles
from zkcoord.zk.options import Digest, Sasl, principal_of
from zkcoord.znodes import names
from zkcoord.znodes.registration import LIST_CHARS_MAX
from zkcoord.znodes.strict_json import USER_DATA_CHARS_MAX

COMMIT_TIMEOUT_MS = 10_000
NEAR = 0.6
POLLED_EVERY_MS = 500
MAX_BUFFERED_BYTES = 64 * 1024 * 1024
DURATION_MS_MAX = 2**31 - 1
# as Kafka's own consumer; kafka-python's 30 s would leave a broker that was away for a minute
# unasked for half a minute more
RECONNECT_MAX_MS = 1_000

OWN_DEFAULTS: dict[str, Any] = {
    "zookeeper_connect": None,
    "zookeeper_session_timeout_ms": 18_000,
    "zookeeper_connection_timeout_ms": 10_000,
    "zookeeper_layout": "draft",
    "zookeeper_auth": None,
    "zookeeper_acl": None,
    "zookeeper_acl_coordinators": None,
    "zookeeper_acl_members": None,
    "zookeeper_acl_readers": None,
    "zookeeper_ssl_cafile": None,
    "zookeeper_ssl_certfile": None,
    "zookeeper_ssl_keyfile": None,
    "zookeeper_ssl_password": None,
    "zookeeper_sasl_mechanism": None,
    "zookeeper_sasl_username": None,
    "zookeeper_sasl_password": None,
    "consumer_id": None,
    "data_client": "kafka-python",
    "initial_offsets": "kafka",
    "offsets_storage": "zookeeper",
    "group_instance_grace_ms": 45_000,
    "rebalance_protocol": "cooperative",
    "assignment_user_data": "",
    "bootstrap_listener": None,
    "raise_on_rebalance_failure": False,
    "rebalance_timeout_ms": None,
    "max_buffered_bytes": MAX_BUFFERED_BYTES,
    "commit_timeout_ms": COMMIT_TIMEOUT_MS,
    "coordinator_warning_ms": 5_000,
    "guardian": True,
    "failsafe": False,
    "observer": None,
}

CHANGED_DEFAULTS: dict[str, Any] = {
    "bootstrap_servers": None,
    "allow_auto_create_topics": False,
    "partition_assignment_strategy": ("sticky",),
    "reconnect_backoff_max_ms": RECONNECT_MAX_MS,
    "session_timeout_ms": None,
}

DEFAULT_CONFIG: dict[str, Any] = {
    **kafka.KafkaConsumer.DEFAULT_CONFIG,
    **CHANGED_DEFAULTS,
    **OWN_DEFAULTS,
}

KAFKA_NAMES = {"cooperative-sticky": "sticky"}
ASSIGNOR_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
RESET_POLICIES = {
    "earliest": "earliest",
    "latest": "latest",
    "none": "none",
    "smallest": "earliest",
    "largest": "latest",
}
DATA_CLIENTS = ("kafka-python", "librdkafka")
LAYOUTS = ("draft", "isolated")
PROTOCOLS = {"cooperative": ("cooperative", "eager"), "eager": ("eager",)}
INITIAL_OFFSETS = ("kafka", "reset", "refuse")
OFFSETS_STORAGES = ("zookeeper", "dual", "kafka")
ROLES = ("zookeeper_acl_coordinators", "zookeeper_acl_members", "zookeeper_acl_readers")
NEEDS_GROUP = ("consumer_id", "group_instance_id")


@dataclass(frozen=True)
class ConsumerOptions:
    """What was chosen: `config` is the whole table, passwords included (so it is not in the
    `repr`); the other fields are what it comes to.
    """

    config: Mapping[str, Any] = field(repr=False)
    assignors: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    reset_policy: str

    def kafka_configs(self, bootstrap_servers: Any) -> dict[str, Any]:
        """What kafka-python's consumer gets."""
        configs = {k: v for k, v in self.config.items() if k in kafka.KafkaConsumer.DEFAULT_CONFIG}
        for name in (
            "session_timeout_ms",
            "partition_assignment_strategy",
            "default_offset_commit_callback",
            "heartbeat_interval_ms",
            "max_poll_interval_ms",
        ):
            del configs[name]
        if (
            configs["security_protocol"] in TLS_PROTOCOLS
            and configs["ssl_context"] is None
            and (configs["ssl_crlfile"] or configs["ssl_ciphers"])
        ):
            configs["ssl_context"] = broker_context(configs)
        return {
            **configs,
            "bootstrap_servers": bootstrap_servers,
            "auto_offset_reset": self.reset_policy,
        }


def nearest(name: object, known: Iterable[str]) -> str:
    """A question after what it may be a misspelling of, "" where it is like none."""
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=NEAR)
    return f"did you mean {near[0]!r}?" if near else ""


def check(configs: Mapping[str, Any]) -> ConsumerOptions:
    """Options as given, completed and checked. Raises `ConsumerOptionError` with one sentence."""
    for name in configs:
        if name not in DEFAULT_CONFIG:
            raise ConsumerOptionError(
                f"{name!r} is not an option of KafkaConsumer: "
                + (nearest(name, DEFAULT_CONFIG) or "DEFAULT_CONFIG has those that are")
            )
    given = {name: read_option(name, value) for name, value in configs.items()}
    config = {**DEFAULT_CONFIG, **given}
    if (
        isinstance(config["auto_offset_reset"], str)
        and config["auto_offset_reset"] in RESET_POLICIES
    ):
        config["auto_offset_reset"] = RESET_POLICIES[config["auto_offset_reset"]]
    else:
        raise ConsumerOptionError(
            f"auto_offset_reset is {config['auto_offset_reset']!r}: write 'earliest', 'latest' or"
            " 'none'"
        )
    session_timeout_ms = _session_timeout(config, configs)
    if not callable(config["assignment_user_data"]):
        user_data_of(config["assignment_user_data"])
    for rule in (_check_group, _check_zookeeper, _check_roles, _check_brokers, _check_client):
        rule(config)
    rebalance_timeout_ms = (
        config["max_poll_interval_ms"]
        if config["rebalance_timeout_ms"] is None
        else config["rebalance_timeout_ms"]
    )
    return ConsumerOptions(
        config,
        assignor_names(config["partition_assignment_strategy"]),
        session_timeout_ms,
        rebalance_timeout_ms,
        config["auto_offset_reset"],
    )


def assignor_names(strategies: Any) -> tuple[str, ...]:
    """Names of zkcoord's assignors, in order of preference, of names or of kafka-python's assignor
    classes.
    """
    listed = (
        [strategies]
        if isinstance(strategies, (str, type)) or not isinstance(strategies, Iterable)
        else list(strategies)
    )
    found: list[str] = []
    for item in listed:
        given = item if isinstance(item, str) else getattr(item, "name", None)
        if not isinstance(given, str) or ASSIGNOR_NAME.fullmatch(given) is None:
            raise ConsumerOptionError(
                f"partition_assignment_strategy names {quoted(item)}: use 'range', 'roundrobin',"
                " 'sticky', a custom assignor's name, or kafka-python's classes of these names"
            )
        name = KAFKA_NAMES.get(given, given)
        if name not in found:
            found.append(name)
    if not found:
        raise ConsumerOptionError(
            "partition_assignment_strategy is empty: name at least one assignor, for example"
            " ('sticky',)"
        )
    size = len(",".join(found))
    if size > LIST_CHARS_MAX:
        raise ConsumerOptionError(
            f"partition_assignment_strategy names {len(found)} assignors, {size} characters with"
            f" the commas between them: give the few that the group votes for, {LIST_CHARS_MAX}"
            " characters at most"
        )
    return tuple(found)


def user_data_of(given: str | Callable[[], str]) -> str:
    """What to tell a custom assignor: the text, or what the function says now. Raises
    `ConsumerOptionError`, and what the function raises.
    """
    text: object = given() if callable(given) else given
    if not isinstance(text, str) or len(text) > USER_DATA_CHARS_MAX or not is_utf8(text):
        raise ConsumerOptionError(
            "assignment_user_data gives"
            f" {names.shown(text) if isinstance(text, str) else quoted(text)}: it must be text of"
            f" at most {USER_DATA_CHARS_MAX} characters, none of them half a surrogate pair"
        )
    return text


def _session_timeout(config: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    ours, theirs = config["zookeeper_session_timeout_ms"], config["session_timeout_ms"]
    if theirs is not None and "zookeeper_session_timeout_ms" in given and theirs != ours:
        raise ConsumerOptionError(
            f"session_timeout_ms ({theirs}) is another name of zookeeper_session_timeout_ms"
            f" ({ours}): give only one of them"
        )
    return int(ours if theirs is None else theirs)


def _check_group(config: Mapping[str, Any]) -> None:
    group = config["group_id"]
    if group is None:
        for name in NEEDS_GROUP:
            if config[name] is not None:
                raise ConsumerOptionError(
                    f"{name} needs a group: give group_id as well, or leave {name} out"
                )
        return
    if config["zookeeper_connect"] is None:
        raise ConsumerOptionError(
            "a group is coordinated over ZooKeeper: give"
            ' zookeeper_connect="host:port,host:port/chroot"'
        )
    instance = config["group_instance_id"]
    if instance is not None and not names.is_topic(instance):
        raise ConsumerOptionError(
            f"group_instance_id is {instance!r}: give 1 to {names.NAME_CHARS_MAX} of the characters"
            " A-Z a-z 0-9 . _ -"
        )
    if config["initial_offsets"] not in INITIAL_OFFSETS:
        raise ConsumerOptionError(
            f"initial_offsets is {config['initial_offsets']!r}: write 'kafka' (where nothing is"
            " stored in ZooKeeper, go on from what the group has committed in Kafka), 'reset'"
            " (begin where auto_offset_reset says) or 'refuse'"
        )
    if config["offsets_storage"] not in OFFSETS_STORAGES:
        raise ConsumerOptionError(
            f"offsets_storage is {config['offsets_storage']!r}: write 'zookeeper', 'dual' (in"
            " ZooKeeper, mirrored to what Kafka keeps of the group), or 'kafka' (in Kafka alone,"
            " without a fence)"
        )
    if config["rebalance_protocol"] not in PROTOCOLS:
        raise ConsumerOptionError(
            f"rebalance_protocol is {config['rebalance_protocol']!r}: write 'cooperative', or"
            " 'eager' for a group that is to stop all its partitions in each rebalance"
        )


def _check_brokers(config: Mapping[str, Any]) -> None:
    waits, limit, idle = (
        config[name]
        for name in ("fetch_max_wait_ms", "request_timeout_ms", "connections_max_idle_ms")
    )
    if not waits < limit < idle:
        raise ConsumerOptionError(
            f"connections_max_idle_ms ({idle}) must be larger than request_timeout_ms ({limit}),"
            f" and that larger than fetch_max_wait_ms ({waits}): change one of them"
        )
    if config["bootstrap_listener"] is not None and config["bootstrap_servers"] is not None:
        raise ConsumerOptionError(
            "bootstrap_listener chooses among the brokers in ZooKeeper, and bootstrap_servers names"
            " others: leave one of the two out"
        )
    if config["security_protocol"] in TLS_PROTOCOLS and config["ssl_context"] is None:
        broker_context(config)


def _check_client(config: Mapping[str, Any]) -> None:
    client = config["data_client"]
    if client not in DATA_CLIENTS:
        raise ConsumerOptionError(
            f"data_client is {client!r}: write 'kafka-python', or 'librdkafka' for a faster data"
            " path"
        )
    if client == "librdkafka":
        check_mappable(config)


def _check_zookeeper(config: Mapping[str, Any]) -> None:
    connect = config["zookeeper_connect"]
    if connect is None and config["bootstrap_servers"] is None:
        raise ConsumerOptionError(
            "neither zookeeper_connect nor bootstrap_servers is given: give"
            ' zookeeper_connect="host:port/chroot", which also names the brokers'
        )
    if config["zookeeper_layout"] not in LAYOUTS:
        raise ConsumerOptionError(
            f"zookeeper_layout is {config['zookeeper_layout']!r}: write 'draft' or 'isolated'"
        )
    given = [name for name in ROLES if config[name] is not None]
    if given and config["zookeeper_acl"] is not None:
        raise ConsumerOptionError(
            f"zookeeper_acl and {given[0]} are both given: leave zookeeper_acl out, since the other"
            " says who may do what with each node"
        )
    if config["zookeeper_sasl_mechanism"] is None and (
        config["zookeeper_sasl_username"] or config["zookeeper_sasl_password"]
    ):
        raise ConsumerOptionError(
            "zookeeper_sasl_username and zookeeper_sasl_password need zookeeper_sasl_mechanism: add"
            " it ('DIGEST-MD5'), or use zookeeper_auth for ZooKeeper's digest scheme"
        )


def _check_roles(config: Mapping[str, Any]) -> None:
    """What a consumer makes is its own and the coordinators': where it takes itself for one of
    these, the true ones cannot use it, and its group is held up.
    """
    coordinators, members, readers = (config[name] or "" for name in ROLES)
    if not (coordinators or members or readers):
        return
    mine = principal_of(
        Digest(*config["zookeeper_auth"]) if config["zookeeper_auth"] else None,
        Sasl(config["zookeeper_sasl_mechanism"], config["zookeeper_sasl_username"] or "")
        if config["zookeeper_sasl_mechanism"]
        else None,
    )
    found = roles(coordinators, members, readers, ROLES)
    if mine in found.coordinators and mine not in found.members:
        raise ConsumerOptionError(
            f"this consumer has the credentials of {names.shown(str(mine))}, which {ROLES[0]} names"
            f" and {ROLES[1]} does not: give it a member's credentials, and both options as the"
            " coordinators have them"
        )
