"""How a bot sits at a table: it answers each question it is asked, until the match is over."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from client.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from client.match import MatchStream, News
    from client.table import TableState
    from engine.command import Command

# The question was settled while the answer was on its way: by a clock, by the other seat, or by an earlier answer.
_OVERTAKEN: Final = frozenset(
    {
        "STALE_DECISION",
        "MATCH_OVER",
        "CLOCK_EXPIRED",
        "ALREADY_PRESSED",
        "CONTINUE_NOT_DUE",
        "START_NOT_DUE",
        "AWAITING_DEAL",
        "ROUND_SETTLED",
    }
)


async def play(
    match: MatchStream,
    choose: Callable[[TableState], Command | Awaitable[Command | None] | None],
    hear: Callable[[News], None] | None = None,
) -> TableState:
    """Play a match to its end with the commands of `choose`, which may take its time; return the last table.

    Raises Refused when `choose` asks for something the rules do not allow, and what the library raises.
    """
    async with match:
        async for table in match.questions(hear):
            command = choose(table)
            if isinstance(command, Awaitable):
                command = await command
            if command is None:
                continue
            try:
                await match.submit(command)
            except Refused as refusal:
                if refusal.reason not in _OVERTAKEN:
                    raise
    return match.table
