"""JSON logs on standard output: a fixed event name and keyed values. Tiles, shuffles and tokens never go in.

What must not be seen is taken out of each line, of libraries' records and of what ends a process too
(`services/common/redaction.py`).
"""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType
from typing import Any, cast

import structlog

from services.common.redaction import render
from services.common.tracing import add_trace_id

Logger = structlog.typing.FilteringBoundLogger


def configure(level: str) -> None:
    """Logs of this process from `level` upwards, one JSON object a line, libraries' records included.

    What nobody catches is logged as well, and not told to standard error by Python itself.
    """
    stamps: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        add_trace_id,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]
    structlog.configure(
        processors=[*stamps, structlog.processors.format_exc_info, render],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        # Writes each line at once, as printing would, at a lower price.
        logger_factory=structlog.WriteLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*stamps, structlog.processors.format_exc_info],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    sys.excepthook = _crashed
    threading.excepthook = lambda fault: _crashed(
        fault.exc_type, fault.exc_value or fault.exc_type(), fault.exc_traceback
    )
    sys.unraisablehook = lambda fault: _crashed(
        fault.exc_type, fault.exc_value or fault.exc_type(), fault.exc_traceback
    )


def get_logger() -> Logger:
    """The logger of this process."""
    return cast(Logger, structlog.get_logger())


def _crashed(kind: type[BaseException], fault: BaseException, trace: TracebackType | None) -> Any:
    # Its text may hold anything: it goes the way of all lines.
    get_logger().error("crashed", exc_info=(kind, fault, trace))
