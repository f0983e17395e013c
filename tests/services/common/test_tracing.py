"""Where an action belongs, across processes: what is taken in, what goes on, and what is never imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from services.common import tracing
from services.common.tracing import NoTracer, TraceContext

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.mark.parametrize("sampled", [True, False])
def test_a_place_in_a_trace_reads_as_it_was_written(sampled: bool) -> None:
    context = TraceContext(TRACE, SPAN, sampled)
    assert TraceContext.parse(str(context)) == context


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}0-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-01" + "x" * 10_000,
    ],
)
def test_what_a_client_gets_wrong_is_no_trace_and_no_fault(text: str) -> None:
    assert TraceContext.parse(text) is None


def test_the_trace_is_found_among_other_metadata() -> None:
    metadata = (("user-agent", "x"), ("traceparent", f"00-{TRACE}-{SPAN}-01"), ("x-bin", b"\0"))
    assert tracing.from_metadata(metadata) == TraceContext(TRACE, SPAN)
    assert tracing.from_metadata((("traceparent", b"00"),)) is None
    assert tracing.from_metadata(None) is None


def test_without_traces_what_comes_in_goes_on() -> None:
    context = TraceContext(TRACE, SPAN)
    assert NoTracer().begin("command", context).context == context
    assert NoTracer().begin("command", None).context is None
    assert isinstance(tracing.open_tracer("", "game"), NoTracer)


OFF = """
import sys
import services.clock.__main__, services.game.__main__, services.matchmaking.__main__
from services.common.tracing import open_tracer
open_tracer("", "game")
print([name for name in sys.modules if name.split(".")[0] == "opentelemetry"])
"""
MISSING = """
import sys
sys.modules["opentelemetry"] = None
from services.common.tracing import TracingUnavailableError, open_tracer
try:
    open_tracer("http://127.0.0.1:4317", "game")
except TracingUnavailableError as error:
    print(error)
"""


def _said(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=60, text=True
    ).stdout


def test_without_an_endpoint_nothing_of_opentelemetry_is_imported() -> None:
    assert _said(OFF) == "[]\n"


def test_an_endpoint_without_the_extra_is_said_in_one_sentence() -> None:
    assert "traces need the extra `tracing`" in _said(MISSING)
