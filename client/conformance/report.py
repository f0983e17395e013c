"""What came of the checks, as a table for people and programs: one line a check, the reason behind it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from client.conformance.check import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from client.conformance.check import Check, Result


def lines(results: Sequence[Result]) -> Iterable[str]:
    """The whole table, topic by topic, and a last line that counts."""
    width = max((len(result.check.name) for result in results), default=0)
    topic = ""
    for result in results:
        if result.check.topic != topic:
            topic = result.check.topic
            yield f"{topic}:"
        line = f"  {result.verdict:<7}  {result.check.name:<{width}}  {result.seconds:5.1f} s"
        yield f"{line}  {result.reason}".rstrip()
    counts = Counter(result.verdict for result in results)
    yield ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)


def promises(checks: Sequence[Check]) -> Iterable[str]:
    """What each check looks at."""
    width = max((len(check.name) for check in checks), default=0)
    topic = ""
    for check in checks:
        if check.topic != topic:
            topic = check.topic
            yield f"{topic}:"
        yield f"  {check.name:<{width}}  {check.promise}"


def status(results: Sequence[Result]) -> int:
    """The exit status: 0 when nothing failed and something passed, else 1."""
    verdicts = {result.verdict for result in results}
    return 0 if Verdict.FAILED not in verdicts and Verdict.PASSED in verdicts else 1
