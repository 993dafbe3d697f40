"""kafka-python's own log lines, said once; and its first connection, whose trouble is said soon.

It logs each attempt to reach a broker: four lines a second for as long as one is away. What it says
is said here when it begins and when it is over (`consumer.fetch.broker_log`). Of each of its lines
the first goes through, and one a minute while it comes again; the others do at level DEBUG of this
module. (So do those lines of ours that repeat what it says.) Only lines of the IO threads of
consumers made here are judged: what other clients of kafka-python log in this process is theirs.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import kafka
import kafka.errors
from kafka.errors import KafkaTimeoutError, SaslAuthenticationFailedError

from consumer.errors import BrokersUnreachableError
from zkcoord.tls import kafka_tls
from zkcoord.zk.bell import Bell

log = logging.getLogger(__name__)

SAID_AFTER_S = 0.8
LOOKS_MAX = 5
AGAIN_S = 60.0
LINES_MAX = 1_000
# Loggers whose lines begin with what they are about: a topic, a partition.
NAMING = ("kafka.cluster", "kafka.consumer.fetcher")
# How kafka-python says that, and why.
FAILED = ("Connection failed: %s", "Bootstrap connection to %s failed: %s")
NOT_TRUSTED = "CERTIFICATE_VERIFY_FAILED"
CERTIFICATE_HINT = "; ssl_cafile names the authorities that are trusted"
CREDENTIALS_HINT = (
    "; brokers end a connection whose credentials they do not know: see sasl_mechanism,"
    " sasl_plain_username and sasl_plain_password"
)
UNREACHED = ("ECONNREFUSED", "DNS", "EHOSTUNREACH", "ENETUNREACH")
LOGGERS = (
    "consumer.fetch.client",
    "kafka.cluster",
    "kafka.consumer.fetcher",
    "kafka.coordinator.base",
    "kafka.net.connection",
    "kafka.net.inet",
    "kafka.net.manager",
    "kafka.net.transport",
)


class RepeatedLines(logging.Filter):
    """Lets a line of the given IO loops through that was not there within `AGAIN_S`. It is the same
    by its place in the source and, for `NAMING`, what it names.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # kafka-python's IO loops.
        self._loops: weakref.WeakSet[Any] = weakref.WeakSet()
        # Line of a thread -> when it went through last, and how many have not since.
        self._said: dict[tuple[Any, ...], tuple[float, int]] = {}
        # Thread -> why a connection failed last.
        self.failed: dict[int | None, Exception | None] = {}

    def add(self, loop: Any) -> None:
        """Judge the lines of this loop's thread."""
        self._loops.add(loop)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it goes through."""
        if record.levelno < logging.WARNING or not self._is_ours(record.thread):
            return True
        if str(record.msg).startswith(FAILED) and isinstance(record.args, tuple):
            self.failed[record.thread] = next(
                (part for part in record.args if isinstance(part, Exception)), None
            )
        about = record.args if record.name in NAMING and isinstance(record.args, tuple) else ()
        line = (record.thread, record.name, record.lineno, *map(str, about[:1]))
        now = self._clock()
        since, left_out = self._said.get(line, (-AGAIN_S, 0))
        if now - since < AGAIN_S:
            self._said[line] = (since, left_out + 1)
            log.debug("%s: %s", record.name, record.getMessage())
            return False
        if len(self._said) >= LINES_MAX:
            self._said.clear()
            self.failed.clear()
        self._said[line] = (now, 0)
        if left_out:
            record.msg = f"{record.getMessage()} (and {left_out} like it before)"
            record.args = None
        return True

    def _is_ours(self, thread: int | None) -> bool:
        return any(
            loop._io_thread is not None and loop._io_thread.ident == thread
            for loop in tuple(self._loops)
        )


REPEATED = RepeatedLines()
for _name in LOGGERS:
    logging.getLogger(_name).addFilter(REPEATED)


def quiet(make: Callable[..., Any], made: list[Any]) -> Callable[..., Any]:
    """What makes kafka-python's network client, so that its lines are said once; they are added to
    `made`.
    """

    def make_quiet(*arguments: Any, **configs: Any) -> Any:
        client = make(*arguments, **configs)
        made.append(client)
        loop = getattr(client, "_net", None)
        if loop is not None:
            REPEATED.add(loop)
        return client

    return make_quiet


def trouble(clients: Iterable[Any]) -> Exception | None:
    """Why their last connection failed; None where that is not known."""
    for client in clients:
        thread = getattr(getattr(client, "_net", None), "_io_thread", None)
        why = REPEATED.failed.get(None if thread is None else thread.ident)
        if why is not None:
            return why
    return None


def said_of(why: Exception | None, protocol: str) -> str:
    """As " (why)", with the options to look at; "" where it is not known. `protocol` is that of
    security.
    """
    if why is None:
        return ""
    hint = CERTIFICATE_HINT if NOT_TRUSTED in str(why) else ""
    if not hint and protocol.startswith("SASL") and not any(w in str(why) for w in UNREACHED):
        hint = CREDENTIALS_HINT
    return f" ({why}{hint})"


def is_lasting(why: Exception | None) -> bool:
    """Whether it will not pass by trying again: credentials, authorities."""
    return isinstance(why, kafka.errors.SaslAuthenticationFailedError) or NOT_TRUSTED in str(why)


def connected(configs: Mapping[str, Any]) -> Any:
    """kafka-python's consumer, once it knows the brokers. That none answers is said after a moment,
    with the reason, and raised as `BrokersUnreachableError` after `bootstrap_timeout_ms`; what was
    opened is closed then.
    """
    limit_ms, servers = configs["bootstrap_timeout_ms"], shown_servers(configs["bootstrap_servers"])
    protocol, opened = str(configs["security_protocol"]), list[Any]()

    over = Bell()

    def look() -> None:
        looks = 0
        while not over.wait(SAID_AFTER_S):
            looks, why = looks + 1, trouble(opened)
            if why is None and looks < LOOKS_MAX:
                continue
            if is_lasting(why):
                manager = opened[0]._manager
                manager.call_soon(manager.close)  # ends the attempts
                return
            log.warning(
                "no Kafka broker answers yet at %s%s: it is tried for %s ms",
                servers,
                said_of(why, protocol),
                limit_ms,
            )
            return

    threading.Thread(target=look, name="zkcoord-first-answer", daemon=True).start()
    made = None
    try:
        made = kafka.KafkaConsumer(
            **{
                **configs,
                **kafka_tls(configs),
                "group_id": None,
                "group_instance_id": None,
                "enable_auto_commit": False,
                "kafka_client": quiet(configs["kafka_client"], opened),
            }
        )
        return made
    except KafkaTimeoutError:
        why = trouble(opened)
        if isinstance(why, SaslAuthenticationFailedError):
            raise SaslAuthenticationFailedError(
                f"the brokers at {servers} refuse the credentials ({why}): correct sasl_mechanism,"
                " sasl_plain_username and sasl_plain_password"
            ) from why
        raise BrokersUnreachableError(
            f"no Kafka broker answers at {servers}"
            + ("" if is_lasting(why) else f" within {limit_ms} ms")
            + f"{said_of(why, protocol)}: start it, or correct bootstrap_servers (where it is left"
            " out, the brokers are those registered in ZooKeeper)"
        ) from None
    finally:
        over.set()
        if made is None:
            for client in opened:
                # a handler's exception may have come while its thread began: it cannot be joined
                # then, has been told to stop, and what ends this call is that exception
                with contextlib.suppress(RuntimeError):
                    client.close()


def shown_servers(servers: Any) -> str:
    """Addresses for a sentence."""
    return servers if isinstance(servers, str) else ", ".join(map(str, servers))
