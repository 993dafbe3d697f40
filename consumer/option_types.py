"""The type of every option: one table, kafka-python's options included. `KafkaConsumer`, message
streams and the Spark source read values by it.

Text is read as what it says, because values come out of environment variables and INI files:
"false" and "no" are False, "5000" is 5000. What says nothing of the kind is refused, before
anything is opened, in one sentence with the option's name. Values of secret options are never
quoted.
"""

from __future__ import annotations

import inspect
import math
import numbers
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import kafka.cluster

from consumer.errors import ConsumerOptionError
from consumer.observer import AssignmentObserver
from zkcoord.words import is_text, yes_or_no
from zkcoord.zk.acl.text import acl_entries
from zkcoord.zk.port import PERMISSIONS, AclEntry

NUMBER_MAX = 2**31 - 1
SHOWN_CHARS_MAX = 200
WIRE_TEXT_BYTES_MAX = 2**15 - 1
PERMISSIONS_ALL = sum(PERMISSIONS.values())
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
# in full, or with an exponent; not Python's underscores, nor "inf" where there must be an end
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,9})?", re.ASCII)
_VERSION = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){1,3}", re.ASCII)
_HOST = re.compile(r"[^\s/,@?#]+")


@dataclass(frozen=True)
class OptionType:
    """`read` gives the value of what was given, or raises `ValueError`; `says` is what to write
    instead. With `may_be_none` None is a value.
    """

    read: Callable[[Any], Any]
    says: str
    may_be_none: bool = False
    secret: bool = False
    typed: bool = False


def read_option(name: str, given: Any, called: str = "") -> Any:
    """The value of an option. `called`: what the user calls it, where that is another name. Raises
    `ConsumerOptionError`.
    """
    return read_as(OPTION_TYPES[name], called or name, given)


def read_as(kind: OptionType, name: str, given: Any) -> Any:
    """As `read_option`, of an option that is not in the table."""
    if given is None and kind.may_be_none:
        return None
    try:
        return kind.read(given)
    except (TypeError, ValueError, AttributeError, OverflowError) as e:
        shown = "not what it must be" if kind.secret else quoted(given)
        if kind.typed and not isinstance(given, str):
            shown = f"of the type {type(given).__name__}"  # there may be a password in it
        why = f" ({e})" if isinstance(e, _Said) else ""
        raise ConsumerOptionError(f"{name} is {shown}{why}: {kind.says}") from None


def quoted(given: Any) -> str:
    """A value as it was given, or how it begins, for a sentence."""
    try:
        text = repr(given)
    except (ValueError, TypeError, AttributeError, RuntimeError):  # numbers of thousands of digits
        return f"of the type {type(given).__name__}"
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}..."


class _Said(ValueError):
    """Its text helps the user."""


def _flag(given: Any) -> bool:
    if isinstance(given, str):
        return yes_or_no(given)
    if isinstance(given, bool):
        return given
    if isinstance(given, numbers.Integral) and given in (0, 1):
        return bool(given)
    raise ValueError(given)


def _number(given: Any) -> int | float:
    """As given; text by what it says. Whole numbers are `int`."""
    if isinstance(given, str) and _DECIMAL.fullmatch(given.strip()):
        given = float(given) if "." in given else int(given)
    if isinstance(given, bool) or not isinstance(given, numbers.Real) or math.isnan(given):
        raise ValueError(given)
    found = float(given) if not isinstance(given, numbers.Integral) else int(given)
    return int(found) if not math.isinf(found) and found == int(found) else found


def _text(given: Any) -> str:
    if not isinstance(given, str) or not is_text(given):
        raise ValueError(given)
    return given


def _wire_text(given: Any) -> str:
    """Text as Kafka's protocol holds it."""
    found = _text(given)
    size = len(found.encode())
    if size > WIRE_TEXT_BYTES_MAX:
        raise _Said(f"{size} bytes")
    return found


def _servers(given: Any) -> Any:
    listed = given.split(",") if isinstance(given, str) else list(given)
    for server in listed:
        address = re.sub("^.*://", "", _text(server)).strip()
        try:
            host, port, _ = kafka.cluster.get_ip_port_afi(address)
        except ValueError:
            raise _Said(f"{server!r} is not a server") from None
        if not _HOST.fullmatch(host) or not 0 < port <= 65_535:
            raise _Said(f"{server!r} is not a server")
    if not listed:
        raise ValueError(given)
    return given if isinstance(given, str) else listed


def _pair(given: Any) -> tuple[str, str]:
    user, password = given if isinstance(given, (tuple, list)) else ("", None)
    return _text(user), _text(password)


def _acl(given: Any) -> tuple[AclEntry, ...]:
    """Text, or entries: ours or kazoo's."""
    if isinstance(given, str):
        return acl_entries(given)
    found = tuple(
        (entry.perms, entry.scheme, entry.id)
        if isinstance(entry, AclEntry)
        else (entry.perms, entry.id.scheme, entry.id.id)
        for entry in given
    )
    if not all(type(perms) is int and 0 < perms <= PERMISSIONS_ALL for perms, _, _ in found):
        raise ValueError(given)
    return tuple(AclEntry(perms, _text(scheme), _text(who)) for perms, scheme, who in found)


def _version(given: Any) -> tuple[int, ...] | None:
    if isinstance(given, str):
        if given.strip().lower() == "auto":
            return None
        if _VERSION.fullmatch(given.strip()) is None:
            raise ValueError(given)
        given = map(int, given.split("."))
    found = tuple(given)
    if not found or any(type(part) is not int or not 0 <= part <= 999 for part in found):
        raise ValueError(given)
    return found


def _file(given: Any) -> str:
    """A file that can be read."""
    path = os.fspath(given)
    if not isinstance(path, str) or not path:
        raise ValueError(given)
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise _Said("it is no file")  # a pipe would be waited for
        with open(path, "rb") as file:
            file.read(1)
    except OSError as e:
        raise _Said(e.strerror or repr(e)) from None
    return path


def _callable(given: Any) -> Any:
    if not callable(given):
        raise ValueError(given)
    return given


def _deserializer(given: Any) -> Any:
    return given if callable(getattr(given, "deserialize", None)) else _callable(given)


def _object(given: Any) -> Any:
    if isinstance(given, (str, bytes, bool, numbers.Number)):
        raise ValueError(given)
    return given


def _observer(given: Any) -> Any:
    methods = [name for name in vars(AssignmentObserver) if name.startswith("on_")]
    if not all(callable(getattr(given, m, None)) for m in methods):
        raise ValueError(given)
    if isinstance(given, type) and not all(
        isinstance(inspect.getattr_static(given, m), (staticmethod, classmethod)) for m in methods
    ):
        raise ValueError(given)
    return given


def _socket_options(given: Any) -> list[tuple[Any, ...]]:
    found = [tuple(option) for option in given]
    if not all(map(_is_socket_option, found)):
        raise ValueError(given)
    return found


def _is_socket_option(option: tuple[Any, ...]) -> bool:
    """(level, name, value), or (level, name, None, length)."""
    if len(option) == 4:
        return option[2] is None and all(map(_is_c_int, (*option[:2], option[3])))
    if len(option) != 3 or not all(map(_is_c_int, option[:2])):
        return False
    return _is_c_int(option[2]) or isinstance(option[2], (bytes, bytearray, memoryview))


def _is_c_int(given: Any) -> bool:
    return isinstance(given, int) and -NUMBER_MAX - 1 <= given <= NUMBER_MAX


def _list(given: Any) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(given)
    return list(given)


def _any(given: Any) -> Any:
    return given


def flag(may_be_none: bool = False) -> OptionType:
    """On or off."""
    return OptionType(_flag, "write True or False", may_be_none)


def _within(low: float, high: float, whole: bool) -> Callable[[Any], int | float]:
    def read(given: Any) -> int | float:
        found = _number(given)
        if not low <= found <= high or (whole and not isinstance(found, int)):
            raise ValueError(given)
        return found

    return read


def count(low: int, may_be_none: bool = False) -> OptionType:
    """A whole number: of records, bytes ..."""
    says = "above 0" if low == 1 else f"from {low} on"
    return OptionType(_within(low, NUMBER_MAX, True), f"give a whole number {says}", may_be_none)


def milliseconds(low: int, may_be_none: bool = False, whole: bool = False) -> OptionType:
    """A time. `whole`: it goes to a broker or a server as it is."""
    return OptionType(
        _within(low, NUMBER_MAX, whole),
        f"give a {'positive ' if low else ''}number of milliseconds"
        + ("" if low else ", 0 or more"),
        may_be_none,
    )


def text(
    may_be_none: bool = True,
    secret: bool = False,
    example: str = "a text",
    typed: bool = False,
) -> OptionType:
    """Any text. `typed`: of anything else only the type is shown."""
    return OptionType(_text, f"write {example}", may_be_none, secret, typed)


def one_of(words: Iterable[str], may_be_none: bool = False) -> OptionType:
    """One of these words, in any case."""
    known = {word.lower(): word for word in words}

    def read(given: Any) -> str:
        word = known.get(_text(given).strip().lower())
        if word is None:
            raise ValueError(given)
        return word

    listed = [repr(word) for word in known.values()]
    return OptionType(read, f"write {', '.join(listed[:-1])} or {listed[-1]}", may_be_none)


def file(example: str) -> OptionType:
    """A file that can be read."""
    return OptionType(_file, f"name a file that can be read, {example}", True)


_FUNCTION = OptionType(_callable, "give a function, or leave it out")
_DESERIALIZER = OptionType(
    _deserializer, "give a function, or an object with the method deserialize", True
)
_SESSION = OptionType(
    _within(1, NUMBER_MAX, False), "give a number of milliseconds above 0 (18000 is usual)"
)
_WIRE_TEXT = OptionType(_wire_text, f"write a text of at most {WIRE_TEXT_BYTES_MAX} bytes")
_CERTIFICATES = file("with certificates in PEM form")
_KEY = file("with a private key in PEM form")

_THEIRS: dict[str, OptionType] = {
    "bootstrap_servers": OptionType(
        _servers, 'write "host:port,host:port", or a list of "host:port"', True
    ),
    "client_id": _WIRE_TEXT,
    "client_rack": _WIRE_TEXT,
    "group_id": text(example="the name of a group as text"),
    "group_instance_id": text(example="1 to 249 of the characters A-Z a-z 0-9 . _ -"),
    "key_deserializer": _DESERIALIZER,
    "value_deserializer": _DESERIALIZER,
    "enable_incremental_fetch_sessions": flag(),
    "fetch_max_wait_ms": milliseconds(0, whole=True),
    "fetch_min_bytes": count(0),
    "fetch_max_bytes": count(0),
    "max_partition_fetch_bytes": count(1),
    "request_timeout_ms": milliseconds(1),
    "retry_backoff_ms": milliseconds(0),
    "reconnect_backoff_ms": milliseconds(0),
    "reconnect_backoff_max_ms": milliseconds(0),
    "max_in_flight_requests_per_connection": count(1),
    "auto_offset_reset": text(False, example="'earliest', 'latest' or 'none'"),
    "enable_auto_commit": flag(),
    "auto_commit_interval_ms": milliseconds(1),
    "default_offset_commit_callback": _FUNCTION,
    "check_crcs": flag(),
    "isolation_level": OptionType(
        lambda given: (
            given
            if type(given) is int and given in (0, 1)
            else one_of(ISOLATION_LEVELS).read(given)
        ),
        one_of(ISOLATION_LEVELS).says,
    ),
    "allow_auto_create_topics": flag(),
    "metadata_max_age_ms": milliseconds(0),
    "client_dns_lookup": one_of(DNS_LOOKUPS),
    "partition_assignment_strategy": OptionType(_any, "name an assignor"),
    "max_poll_records": count(1),
    "max_poll_interval_ms": milliseconds(1),
    "session_timeout_ms": replace(_SESSION, may_be_none=True),
    "heartbeat_interval_ms": milliseconds(1),
    "receive_buffer_bytes": count(0, True),
    "send_buffer_bytes": count(0, True),
    "receive_message_max_bytes": count(1),
    "socket_options": OptionType(
        _socket_options, "give a list of tuples, as socket.setsockopt takes them"
    ),
    "consumer_timeout_ms": OptionType(
        _within(-1, math.inf, False),
        "give a number of milliseconds, or -1 or float('inf') for no limit",
    ),
    "security_protocol": one_of(SECURITY_PROTOCOLS),
    "ssl_context": OptionType(_object, "give an ssl.SSLContext", True),
    "ssl_check_hostname": flag(),
    "ssl_cafile": _CERTIFICATES,
    "ssl_certfile": _CERTIFICATES,
    "ssl_keyfile": _KEY,
    "ssl_crlfile": file("with a certificate revocation list in PEM form"),
    "ssl_password": text(secret=True, example="the key's password as text"),
    "ssl_ciphers": text(example="a cipher list of OpenSSL"),
    "api_version": OptionType(_version, 'write a tuple such as (2, 8) or "2.8"', True),
    "bootstrap_timeout_ms": milliseconds(1, True),
    "connections_max_idle_ms": milliseconds(1),
    "metric_reporters": OptionType(_list, "give a list of classes"),
    "metrics_enabled": flag(),
    "metrics_num_samples": count(1),
    "metrics_sample_window_ms": milliseconds(1),
    "metric_group_prefix": text(False),
    "selector": OptionType(_callable, "give a class of the module selectors"),
    "exclude_internal_topics": flag(),
    "sasl_mechanism": text(example="'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512' or another one"),
    "sasl_plain_username": text(secret=True, example="the user's name as text"),
    "sasl_plain_password": text(secret=True, example="the user's password as text"),
    "sasl_kerberos_name": OptionType(_any, "", True),
    "sasl_kerberos_service_name": text(False),
    "sasl_kerberos_domain_name": text(),
    "sasl_oauth_token_provider": OptionType(
        _object, "give an AbstractTokenProvider of kafka.net.sasl.oauth", True
    ),
    "proxy_url": text(secret=True, example="socks5://host:port"),
    "socks5_proxy": text(secret=True, example="socks5://host:port"),
    "kafka_client": OptionType(_callable, "give a class that makes kafka-python's clients"),
}

_OURS: dict[str, OptionType] = {
    "zookeeper_connect": text(example='"host:port,host:port/chroot" as one text', typed=True),
    "zookeeper_session_timeout_ms": _SESSION,
    "zookeeper_connection_timeout_ms": milliseconds(0),
    "zookeeper_layout": text(False, example="'draft' or 'isolated'"),
    "zookeeper_auth": OptionType(
        _pair, "give a pair (user, password) for ZooKeeper's digest scheme", True, secret=True
    ),
    "zookeeper_acl": OptionType(
        _acl,
        "write 'open', or SCHEME:ID:PERMISSIONS with permissions of the letters cdrwa, several"
        " with commas between them",
        True,
        secret=True,
    ),
    **{
        f"zookeeper_acl_{who}": text(
            example="SCHEME:ID;SCHEME:ID... as one text, for example 'sasl:app'", typed=True
        )
        for who in ("coordinators", "members", "readers")
    },
    "zookeeper_ssl_cafile": _CERTIFICATES,
    "zookeeper_ssl_certfile": _CERTIFICATES,
    "zookeeper_ssl_keyfile": _KEY,
    "zookeeper_ssl_password": text(secret=True, example="the key's password as text"),
    "zookeeper_sasl_mechanism": one_of(("DIGEST-MD5", "GSSAPI"), True),
    "zookeeper_sasl_username": text(example="the user's name as text"),
    "zookeeper_sasl_password": text(secret=True, example="the user's password as text"),
    "consumer_id": text(),
    "data_client": text(False, example="'kafka-python' or 'librdkafka'"),
    "initial_offsets": text(False, example="'kafka', 'reset' or 'refuse'"),
    "offsets_storage": text(False, example="'zookeeper', 'dual' or 'kafka'"),
    "group_instance_grace_ms": milliseconds(0),
    "rebalance_protocol": text(False, example="'cooperative' or 'eager'"),
    "assignment_user_data": OptionType(_any, ""),
    "bootstrap_listener": text(example="the name of a listener of the brokers"),
    "raise_on_rebalance_failure": flag(),
    "rebalance_timeout_ms": milliseconds(1, True),
    "max_buffered_bytes": count(1),
    "commit_timeout_ms": milliseconds(1),
    "coordinator_warning_ms": milliseconds(1),
    "guardian": flag(),
    "failsafe": flag(),
    "observer": OptionType(_observer, "give an object with the methods of consumer.Observer", True),
}

OPTION_TYPES: Mapping[str, OptionType] = {**_THEIRS, **_OURS}
