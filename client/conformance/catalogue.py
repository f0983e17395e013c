"""All checks, in the order in which they are told."""

from __future__ import annotations

from client.conformance import clocks, commands, ends, errors, hidden, ladder, refusals, seeks, streams, texts
from client.conformance.check import Check


def catalogue() -> tuple[Check, ...]:
    """Every check there is; names are unique."""
    return (
        *commands.CHECKS,
        *refusals.checks(),
        *streams.CHECKS,
        *hidden.CHECKS,
        *clocks.CHECKS,
        *ends.CHECKS,
        *seeks.CHECKS,
        *ladder.CHECKS,
        *errors.CHECKS,
        *texts.CHECKS,
    )


def chosen(only: list[str]) -> tuple[Check, ...]:
    """The checks with these names or of these topics; all without any. Raises ValueError for one that names nothing."""
    everything = catalogue()
    for wanted in only:
        if not any(wanted in (check.name, check.topic) for check in everything):
            raise ValueError(f"no check and no topic is called {wanted}; --list shows those there are")
    return tuple(check for check in everything if not only or check.name in only or check.topic in only)
