"""Spans by OpenTelemetry, sent as OTLP over gRPC. Imported only where traces are wanted: the extra `tracing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from services.common.tracing import Attribute, Kind, Span, TraceContext

_KINDS: Final = {
    Kind.SERVER: trace.SpanKind.SERVER,
    Kind.CONSUMER: trace.SpanKind.CONSUMER,
    Kind.INTERNAL: trace.SpanKind.INTERNAL,
}
EXPORT_SECONDS_MAX: Final = 5
"""An endpoint that does not take a batch in so long loses it; nothing else waits for it."""


class _OtlpSpan:
    def __init__(self, span: trace.Span) -> None:
        self._span = span
        context = span.get_span_context()
        self.context: TraceContext | None = TraceContext(
            f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags.sampled
        )

    def end(self, *, ended_ns: int | None = None, failed: bool = False, **attributes: Attribute) -> None:
        """See Span."""
        if failed:
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.set_attributes(attributes)
        self._span.end(ended_ns)


class OtlpTracer:
    """Collects spans and sends them from a thread of its own. Sampling and batches are what the standard variables
    `OTEL_TRACES_SAMPLER` and `OTEL_BSP_…` say; without them all traces are kept."""

    def __init__(self, endpoint: str, service: str) -> None:
        exporter = OTLPSpanExporter(
            endpoint=endpoint, insecure=not endpoint.startswith("https://"), timeout=EXPORT_SECONDS_MAX
        )
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": service, "service.namespace": "spectacular-bid"}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("spectacular-bid")

    def begin(
        self,
        name: str,
        parent: TraceContext | None,
        kind: Kind = Kind.INTERNAL,
        *,
        began_ns: int | None = None,
        links: Sequence[TraceContext] = (),
        **attributes: Attribute,
    ) -> Span:
        """See Tracer."""
        span = self._tracer.start_span(
            name,
            # Never what OpenTelemetry itself takes for the present span: this one is told, not guessed.
            context=trace.set_span_in_context(
                trace.NonRecordingSpan(_remote(parent)) if parent else trace.INVALID_SPAN
            ),
            kind=_KINDS[kind],
            start_time=began_ns,
            links=[trace.Link(_remote(link)) for link in links],
            attributes=attributes,
        )
        return _OtlpSpan(span)

    def close(self) -> None:
        """See Tracer."""
        self._provider.force_flush(1000)
        self._provider.shutdown()


def _remote(context: TraceContext) -> trace.SpanContext:
    return trace.SpanContext(
        int(context.trace_id, 16), int(context.span_id, 16), True, trace.TraceFlags(int(context.sampled))
    )
