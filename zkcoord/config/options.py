"""Every option of the command line in one table: flags, environment, files, `--help`, validation
and the documentation all come from here.

An option has one name, written `session_timeout_ms` in a file, `--session-timeout-ms` as a flag and
ZKCOORD_SESSION_TIMEOUT_MS in the environment. Names of durations and sizes end with their unit. A
default that belongs to the core is the core's own (`CoordinatorOptions`), so that it exists once.

The coordinator's session timeout is 6 s: its loss stops nobody's consumption, only the next
rebalance, so a shorter one is worth more than the calm of 18 s that consumers have. A server's own
limits (by default 2 to 20 ticks: 4 s to 40 s) decide in the end; the log says what was granted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from zkcoord.config.decision_options import COUNT_MAX, DECISIONS, HOUR_MS
from zkcoord.config.gateway_options import GATEWAY
from zkcoord.config.option_spec import OptionSpec, Use, Value, number, switch, text
from zkcoord.core.options import CoordinatorOptions
from zkcoord.topics.options import TopicOptions, TopicSourceKind
from zkcoord.zk.options import SASL_MECHANISMS, SESSION_TIMEOUT_MAX_MS, SESSION_TIMEOUT_MIN_MS
from zkcoord.znodes.paths import LAYOUTS

BYTES_MAX = 2**40
BOTH = (Use.COORDINATOR, Use.GROUPS, Use.GATEWAY)
SERVERS = (Use.COORDINATOR, Use.GATEWAY)


CONNECTION = (
    text(
        "zookeeper",
        None,
        "the ensemble and, where there is one, Kafka's chroot after the last server",
        BOTH,
        metavar="HOST:PORT,...[/CHROOT]",
    ),
    text(
        "layout",
        "draft",
        "where zkcoord's nodes are: `draft` under /consumers, `isolated` under /zkcoord where old"
        " consumers or their tools live",
        BOTH,
        tuple(LAYOUTS),
    ),
    number(
        "session_timeout_ms",
        6_000,
        "asked of ZooKeeper; the server's limits decide",
        SESSION_TIMEOUT_MIN_MS,
        SESSION_TIMEOUT_MAX_MS,
        BOTH,
        "MS",
    ),
    number(
        "connect_timeout_ms",
        10_000,
        "how long the first connection may take; 0: keep trying for ever",
        0,
        HOUR_MS,
        BOTH,
        "MS",
    ),
    text(
        "zookeeper_user", None, "user for ZooKeeper's digest scheme or SASL", BOTH, metavar="NAME"
    ),
    text(
        "zookeeper_password",
        None,
        "its password; prefer the file or the environment, since other users can read flags",
        BOTH,
        secret=True,
        metavar="PASSWORD",
    ),
    text(
        "zookeeper_password_file",
        None,
        "a file whose first line is the password",
        BOTH,
        metavar="PATH",
    ),
    text(
        "sasl_mechanism",
        None,
        "authenticate by SASL instead of the digest scheme",
        BOTH,
        SASL_MECHANISMS,
    ),
    switch(
        "tls", False, "reach ZooKeeper by TLS; certificate and host name are always verified", BOTH
    ),
    text(
        "tls_ca_file",
        None,
        "PEM file of the authorities; without it, the system's",
        BOTH,
        metavar="PATH",
    ),
    text(
        "tls_cert_file", None, "PEM file of our certificate, for mutual TLS", BOTH, metavar="PATH"
    ),
    text(
        "tls_key_file",
        None,
        "PEM file of its key, where it is not in the certificate's file",
        BOTH,
        metavar="PATH",
    ),
    text("tls_key_password", None, "the key's password", BOTH, secret=True, metavar="PASSWORD"),
)
IDENTITY = (
    number(
        "broker_id",
        None,
        "the broker that this process lives beside: it must be in /brokers/ids, and its loss is"
        " reported",
        0,
        2**31 - 1,
        metavar="ID",
    ),
    text(
        "host",
        None,
        "the host written into the leader node; without it, this machine's name",
        metavar="NAME",
    ),
    text(
        "acl",
        "open",
        "ACL of the nodes that are created: `open`, or SCHEME:ID:PERMISSIONS,... with permissions"
        " of the letters cdrwa",
        BOTH,
        metavar="ACL",
    ),
    text(
        "acl_coordinators",
        None,
        "coordinators and operators, as SCHEME:ID;SCHEME:ID...; with acl_members, each node gets"
        " the ACL of its place instead of `acl`",
        BOTH,
        metavar="WHO",
    ),
    text("acl_members", None, "consumers, in the same form", BOTH, metavar="WHO"),
    text(
        "acl_readers",
        None,
        "who may look, in the same form; world:anyone is everybody",
        BOTH,
        metavar="WHO",
    ),
    switch(
        "secure", False, "do not start where somebody may do more with a node than its place allows"
    ),
    switch(
        "guardian",
        True,
        "a companion process closes the session at once when this process is killed",
        SERVERS,
    ),
    text(
        "guardian_report_path",
        None,
        "a file to which the guardian appends a JSON line for each session it closed",
        metavar="PATH",
    ),
)
OUTPUT = (
    switch("http", True, "serve /live /ready /metrics /groups (GET only)", SERVERS),
    text(
        "http_host",
        "127.0.0.1",
        "address to serve on; there is no authentication, so anything but loopback needs a network"
        " that you trust",
        SERVERS,
        metavar="ADDRESS",
    ),
    number(
        "http_port",
        0,
        "port to serve on; 0: any free one (the log names it, and a coordinator's leader node)",
        0,
        65_535,
        SERVERS,
        "PORT",
    ),
    text("http_names", None, "more names that clients may ask it by", SERVERS, metavar="NAME,..."),
    switch("console", False, "serve the pages of `zkcoord console`, from a process of its own"),
    text(
        "console_listen",
        "127.0.0.1:9407",
        "where browsers come to it; reading needs no password",
        metavar="ADDRESS:PORT",
    ),
    text(
        "console_actions_token_file",
        None,
        "readers of it who may act: lines of NAME TOKEN, which nobody else may read",
        metavar="PATH",
    ),
    switch("journal", True, "keep a journal of what happened to each group, and why"),
    text(
        "journal_dir",
        None,
        "where; without it, zkcoord/journal under $XDG_STATE_HOME or ~/.local/state",
        (Use.COORDINATOR, Use.JOURNAL),
        metavar="DIR",
    ),
    number(
        "journal_file_bytes_max",
        16 * 1024 * 1024,
        "a journal file that has grown so far is followed by another",
        4_096,
        BYTES_MAX,
        metavar="BYTES",
    ),
    number("journal_files_max", 8, "older journal files in the folder are deleted", 1, 10_000),
    switch(
        "journal_inputs",
        False,
        "keep also every input of the decisions, one file per term beside the journal, for `zkcoord"
        " replay`",
    ),
    number(
        "journal_inputs_bytes_max",
        256 * 1024 * 1024,
        "a term's inputs are recorded up to this size",
        4_096,
        BYTES_MAX,
        metavar="BYTES",
    ),
    number(
        "journal_inputs_terms_max", 8, "inputs of older terms in the folder are deleted", 1, 10_000
    ),
    text(
        "log_level",
        "info",
        "what is logged on standard error",
        SERVERS,
        choices=("debug", "info", "warning", "error"),
    ),
    text(
        "log_format",
        "text",
        "`text` is key=value, `json` one object per line",
        SERVERS,
        choices=("text", "json"),
    ),
    number(
        "log_same_per_minute_max",
        20,
        "lines of one message per minute; what is left out is counted as suppressed=n",
        1,
        COUNT_MAX,
        SERVERS,
    ),
)
TOPICS = (
    text(
        "topic_source",
        TopicSourceKind.AUTO.value,
        "where topics and brokers come from: Kafka's nodes in `zookeeper`, the brokers themselves"
        " (`kafka`; with KRaft there are no such nodes), or `auto`: found out, and changed over",
        (Use.COORDINATOR,),
        tuple(kind.value for kind in TopicSourceKind),
    ),
    number(
        "topic_refresh_ms",
        TopicOptions().refresh_ms,
        "how often brokers are asked for topics, where these do not come from ZooKeeper",
        100,
        HOUR_MS,
        (Use.COORDINATOR,),
        "MS",
    ),
)
READING = (
    text(
        "bootstrap_servers",
        None,
        "brokers to ask for topics and the ends of partitions; without it, those in ZooKeeper,"
        " and those that a coordinator was told of before",
        (Use.COORDINATOR, Use.GROUPS),
        metavar="HOST:PORT,...",
    ),
    text(
        "bootstrap_listener",
        None,
        "the listener to go to of the brokers in ZooKeeper; without it, the first that answers",
        (Use.GROUPS,),
    ),
    text(
        "kafka_config",
        None,
        "a .toml or .json file of kafka-python's options of security (security_protocol, ssl_*,"
        " sasl_*), where brokers want more than plain text",
        BOTH,
        metavar="PATH",
    ),
)
TABLE: dict[str, OptionSpec] = {
    option.name: option
    for option in (*CONNECTION, *IDENTITY, *DECISIONS, *TOPICS, *OUTPUT, *READING, *GATEWAY)
}

ACL_OPTIONS = ("acl", "acl_coordinators", "acl_members", "acl_readers")
"""Of no use to a command that creates nothing."""
BROKER_OPTIONS = tuple(option.name for option in READING)
"""Of no use to a command that asks no broker."""

SECTIONS: dict[str, tuple[OptionSpec, ...]] = {
    "connection": CONNECTION,
    "identity": IDENTITY,
    "decisions": DECISIONS,
    "topics": TOPICS,
    "journal, logs, HTTP": OUTPUT,
    "reading": READING,
    "gateway": GATEWAY,
}

# What the core keeps to itself: sizes that other limits of the protocol follow from, of no use to
# change one by one.
CORE_INTERNAL = frozenset(
    {
        "default_assignor",
        "older_lease_ms",
        "partitions_per_command_max",
        "command_bytes_max",
        "commands_bytes_per_write_max",
        "ops_per_write_max",
        "acl_bytes",
        "owner_path_prefix_bytes",
        "weight_per_step_max",
        "filed_at_once_max",
        "assigned_here_max",
        "retry_backoff_ms",
        "retry_backoff_max_ms",
        "external_assignors",
        "legacy_attempts_ms",
        "legacy_odd_ms",
        "legacy_rescue_max_ms",
    }
)


def options_of(use: Use) -> tuple[OptionSpec, ...]:
    """The options that a command takes, in the order of the table."""
    return tuple(option for option in TABLE.values() if use in option.uses)


def core_options(value: Callable[[str], Value]) -> CoordinatorOptions:
    """The core's options out of the table's, by name."""
    names = {f.name for f in dataclasses.fields(CoordinatorOptions)} & set(TABLE)
    # each option has the type of its field: the table's defaults are the fields'
    values: dict[str, Any] = {name: value(name) for name in names}
    return CoordinatorOptions(default_assignor=str(value("assignor")), **values)


def markdown() -> str:
    """The table for the documentation."""
    lines = ["| option | default | unit | commands | what |", "|---|---|---|---|---|"]
    for option in TABLE.values():
        uses = ", ".join(use.value for use in option.uses)
        choices = f" ({' or '.join(option.choices)})" if option.choices else ""
        lines.append(
            f"| `{option.name}` | {option.default_text or '-'} | {option.unit or '-'} | {uses} |"
            f" {option.help}{choices} |"
        )
    return "\n".join(lines) + "\n"
