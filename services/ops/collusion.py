"""Pairs of players whose rated matches look arranged: results that ratings do not explain, and matches given away."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from matchmaker.chance import at_least, at_least_of
from services.ops.database import WIDTH, Database, time_of, with_database
from services.storage.pairs import RatedMatch, get_rated_matches
from services.storage.pool import Connection

DAYS: Final = 30
MATCHES_MIN: Final = 4
"""Fewer matches of a pair say nothing."""
QUICK_TURNS: Final = 8
"""Who resigns before so many turns have been taken has given the match away: a round has about twenty."""
CHANCE_MAX: Final = 0.05
"""How likely it may be that a report marks anybody although everybody plays to win."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two players, the one who won more often first."""

    player: str
    opponent: str
    matches: int
    wins: int
    """Of the first."""
    expected_wins: float
    """By the ratings before each match."""
    given: int
    """Matches resigned within the first turns, by either."""
    expected_matches: float
    """How often they would meet if everybody met everybody. Pairing brings equals together, so more is no sign alone."""
    one_sided: float
    """How likely so one-sided a score is, either way."""
    given_chance: float
    """How likely so many given away are, if pairs did not matter."""
    marks: tuple[str, ...]
    """What is no chance any more, with so many pairs looked at: `one-sided`, `given away`."""


def find(matches: Sequence[RatedMatch]) -> list[Pair]:
    """Pairs with enough matches, the least likely first."""
    played: Counter[str] = Counter()
    together: defaultdict[tuple[str, str], list[RatedMatch]] = defaultdict(list)
    given = 0
    for match in matches:
        played.update((match.winner, match.loser))
        together[min(match.winner, match.loser), max(match.winner, match.loser)].append(match)
        given += _given(match)
    looked_at = {pair: found for pair, found in together.items() if len(found) >= MATCHES_MIN}
    pairs = []
    for (one, two), found in looked_at.items():
        # Each pair is looked at in two ways, and some pair has to be the oddest: one bound for the whole report.
        bound = CHANCE_MAX / (2 * len(looked_at))
        ones = [match.winner == one for match in found]
        chances = [match.chance if won else 1 - match.chance for match, won in zip(found, ones, strict=True)]
        wins, hoped = sum(ones), sum(chances)
        tail = (
            at_least_of(wins, chances)
            if wins >= hoped
            else at_least_of(len(found) - wins, [1 - chance for chance in chances])
        )
        few = sum(map(_given, found))
        few_chance = at_least(few, drawn=len(found), marked=given, among=len(matches))
        marks = [
            mark
            for mark, chance in (("one-sided", min(1.0, 2 * tail)), ("given away", few_chance))
            if chance < bound
        ]
        turned = 2 * wins < len(found)
        pairs.append(
            Pair(
                player=two if turned else one,
                opponent=one if turned else two,
                matches=len(found),
                wins=len(found) - wins if turned else wins,
                expected_wins=len(found) - hoped if turned else hoped,
                given=few,
                expected_matches=played[one] * played[two] / len(matches),
                one_sided=min(1.0, 2 * tail),
                given_chance=few_chance,
                marks=tuple(marks),
            )
        )
    return sorted(
        pairs, key=lambda each: (min(each.one_sided, each.given_chance), each.player, each.opponent)
    )


def _given(match: RatedMatch) -> bool:
    return match.cause == "resignation" and match.turns < QUICK_TURNS


def collusion(
    database_url: Database,
    *,
    since: Annotated[str, typer.Option(help=f"ISO time with zone; by default {DAYS} days ago.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many pairs.")] = 20,
) -> None:
    """Show pairs of players whose rated matches look arranged; `!` marks what chance does not explain."""
    began = time_of(since, "--since") or datetime.now(UTC) - timedelta(days=DAYS)

    async def read(connection: Connection) -> list[RatedMatch]:
        return await get_rated_matches(connection, began)

    matches = with_database(database_url, read)
    pairs = find(matches)
    marked = sum(bool(pair.marks) for pair in pairs)
    typer.echo(
        f"since {began:%Y-%m-%d %H:%M:%S} UTC: {len(matches)} rated matches,"
        f" {len(pairs)} pairs with {MATCHES_MIN} or more, {marked} marked"
    )
    if pairs:
        Console(width=None if sys.stdout.isatty() else WIDTH).print(_table(pairs[:limit]))
    if len(pairs) > limit:
        typer.echo(f"and {len(pairs) - limit} more pairs")


def _table(pairs: Sequence[Pair]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("player", no_wrap=True)
    table.add_column("opponent", no_wrap=True)
    for name in ("matches", "by chance", "won", "expected", "chance", "given away", "chance"):
        table.add_column(name, justify="right")
    table.add_column("marked for")
    for pair in pairs:
        table.add_row(
            "!" if pair.marks else "",
            escape(pair.player),
            escape(pair.opponent),
            str(pair.matches),
            f"{pair.expected_matches:.1f}",
            str(pair.wins),
            f"{pair.expected_wins:.1f}",
            f"{pair.one_sided:.2g}",
            str(pair.given),
            f"{pair.given_chance:.2g}" if pair.given else "",
            ", ".join(pair.marks),
            style="bold red" if pair.marks else None,
        )
    return table
