"""Whose matches are void more often than those of others: faults are nobody's merit, and should be nobody's habit."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from matchmaker.chance import at_least
from services.ops.database import WIDTH, Database, time_of, with_database
from services.storage.pool import Connection
from services.storage.voids import PlayerVoids, VoidFacts, get_void_facts

BY_OPERATORS: Final = "operator"
"""Voids that a person declared: no player can bring them about."""
SUSPECT_MIN: Final = 3
"""Fewer voids than this are one bad evening."""
CHANCE_MAX: Final = 0.05
"""How likely it may be that a report marks anybody although all are alike."""
DAYS: Final = 7


@dataclass(frozen=True, slots=True)
class Rated:
    """A player beside the others."""

    player: PlayerVoids
    voids: int
    """Void matches that were not declared by a person."""
    expected: float
    """How many there were if this player's matches were like those of the others."""
    chance: float
    """How likely so many or more are, if matches are void without regard to who plays."""
    suspect: bool
    """Too many to be chance, with so many players looked at."""


def rate(facts: VoidFacts) -> list[Rated]:
    """Every player beside the others, the least likely first."""
    counted = sum(facts.voids.values()) - facts.voids[BY_OPERATORS]
    rated = []
    for player in facts.players:
        voids = sum(player.voids.values()) - player.voids[BY_OPERATORS]
        others = facts.matches - player.matches
        expected = player.matches * (counted - voids) / others if others else float(voids)
        chance = at_least(voids, drawn=player.matches, marked=counted, among=facts.matches)
        # One bound for the whole report: many players are looked at, and somebody has to be the unluckiest.
        suspect = voids >= SUSPECT_MIN and voids > expected and chance * len(facts.players) < CHANCE_MAX
        rated.append(Rated(player, voids, expected, chance, suspect))
    return sorted(
        rated, key=lambda each: (each.chance, -each.voids, -each.player.near, -each.player.credited_ns)
    )


def voids(
    database_url: Database,
    *,
    since: Annotated[str, typer.Option(help=f"ISO time with zone; by default {DAYS} days ago.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many players.")] = 50,
) -> None:
    """Show players with void matches, credited time or losses near an incident; `!` marks those far above the others."""
    began = time_of(since, "--since") or datetime.now(UTC) - timedelta(days=DAYS)

    async def read(connection: Connection) -> VoidFacts:
        return await get_void_facts(connection, began)

    facts = with_database(database_url, read)
    void = sum(facts.voids.values())
    share = f" ({void / facts.matches:.2%}): {_reasons(facts.voids)}" if void else ""
    typer.echo(
        f"since {began:%Y-%m-%d %H:%M:%S} UTC: {facts.matches} matches of {len(facts.players)} players,"
        f" {void} void{share}"
    )
    shown = [each for each in rate(facts) if each.player.voids or each.player.near or each.player.credited_ns]
    if shown:
        Console(width=None if sys.stdout.isatty() else WIDTH).print(_table(shown[:limit]))
    if len(shown) > limit:
        typer.echo(f"and {len(shown) - limit} more players")


def _table(shown: list[Rated]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("player", no_wrap=True)
    table.add_column("name")
    for name in ("matches", "void", "share", "expected", "chance", "late near", "credited s"):
        table.add_column(name, justify="right")
    table.add_column("void because")
    for each in shown:
        player = each.player
        void = sum(player.voids.values())
        table.add_row(
            "!" if each.suspect else "",
            escape(player.player_id),
            escape(player.name),
            str(player.matches),
            str(void),
            f"{void / player.matches:.1%}",
            f"{each.expected:.2f}",
            f"{each.chance:.2g}" if each.voids else "",
            str(player.near),
            f"{player.credited_ns / 1e9:.1f}",
            _reasons(player.voids),
            style="bold red" if each.suspect else None,
        )
    return table


def _reasons(counted: Counter[str]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in counted.most_common())
