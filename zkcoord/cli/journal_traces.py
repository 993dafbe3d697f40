"""`zkcoord journal --traces-to URL`: each rebalance of the journal as a trace, by OTLP over HTTP,
so that a slow one shows in a tracing system: what was decided, who was told to give up or to begin
what, and how long each took to answer. A process of its own beside the coordinator, which has
nothing to do with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from zkcoord.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

NS_PER_MS = 1_000_000
STEPS_MAX = 64
TEXT_CHARS_MAX = 1_000
FLUSH_MS = 10_000
VERBS = {"stop-fetcher": "give up", "start-fetcher": "begin"}
NAMED = ("generation", "cause", "trigger", "moved", "members", "unassigned", "assignor", "state")
MISSING_EXTRA = (
    "--traces-to needs OpenTelemetry's exporter: install it with pip install 'zkcoord[otel]'"
)


class TimedSpan(NamedTuple):
    """A span: of the whole rebalance, or of a part of it. Times are ns since 1970."""

    name: str
    begin_ns: int
    end_ns: int
    attributes: Mapping[str, str | int]


def spans_of(record: Mapping[str, Any]) -> Iterator[TimedSpan]:
    """The whole first, then its parts. What is not of the form of a rebalance gives nothing; it may
    be of another version.
    """
    if record.get("kind") not in ("rebalance", "client-led rebalance"):
        return
    end, took = record["t"], _ms(record.get("duration_ms"))
    begin = end - took
    attributes: dict[str, str | int] = {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": str(record.get("group", "")),
    }
    for name in NAMED:
        value = record.get(name)
        if type(value) is int or (isinstance(value, str) and value):
            shown = value if isinstance(value, int) else value[:TEXT_CHARS_MAX]
            attributes[f"zkcoord.{name}"] = shown
    yield TimedSpan("rebalance", begin * NS_PER_MS, end * NS_PER_MS, attributes)
    decided = record.get("decided_ms")
    if type(decided) is int:
        yield _part("decide", begin, 0, min(_ms(decided), took), {})
    steps = record.get("steps")
    for step in steps[:STEPS_MAX] if isinstance(steps, list) else ():
        if isinstance(step, dict):
            verb = VERBS.get(str(step.get("option")), "answer")
            member = str(step.get("member", ""))[:TEXT_CHARS_MAX]
            at, ms = _ms(step.get("at_ms")), _ms(step.get("ms"))
            yield _part(verb, begin, at, ms, {"zkcoord.member": member})


def _part(
    name: str, begin: int, at: int, ms: int, attributes: Mapping[str, str | int]
) -> TimedSpan:
    return TimedSpan(name, (begin + at) * NS_PER_MS, (begin + at + ms) * NS_PER_MS, attributes)


def _ms(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**40 else 0


class Traces:
    """Sends spans. Raises `ConfigurationError` where the exporter is not installed."""

    def __init__(self, endpoint: str) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"--traces-to is {endpoint!r}: write the collector's address, as"
                " http://collector:4318/v1/traces"
            )
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import SERVICE_NAME, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise ConfigurationError(MISSING_EXTRA) from None
        provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "zkcoord"}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
        self._provider: TracerProvider = provider

    def send(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Hand these over; another thread sends them, and what cannot be sent is left out."""
        from opentelemetry.trace import set_span_in_context

        tracer = self._provider.get_tracer("zkcoord.journal")
        for record in records:
            whole = None
            for found in spans_of(record):
                context: Context | None = None if whole is None else set_span_in_context(whole)
                span = tracer.start_span(
                    found.name,
                    context=context,
                    attributes=dict(found.attributes),
                    start_time=found.begin_ns,
                )
                if whole is None:
                    whole, whole_end = span, found.end_ns
                else:
                    span.end(found.end_ns)
            if whole is not None:
                whole.end(whole_end)

    def close(self) -> None:
        """Send what waits."""
        self._provider.force_flush(FLUSH_MS)
        self._provider.shutdown()
