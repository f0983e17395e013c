"""`python -m services.ops`: the operator's commands."""

from __future__ import annotations

import typer

from services.ops import game, incident, match, matchmaking, player, rating
from services.ops.audit import acts
from services.ops.check import check
from services.ops.collusion import collusion
from services.ops.compact import compact
from services.ops.incidents import incidents
from services.ops.status import status
from services.ops.voids import voids
from services.ops.watch import watch

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="What operators do by hand.",
)
app.add_typer(incident.app, name="incident")
app.add_typer(match.app, name="match")
app.add_typer(rating.app, name="rating")
app.add_typer(matchmaking.app, name="matchmaking")
app.add_typer(game.app, name="game")
app.add_typer(player.app, name="player")
app.command("status")(status)
app.command("incidents")(incidents)
app.command("acts")(acts)
app.command("watch")(watch)
app.command("voids")(voids)
app.command("collusion")(collusion)
app.command("check")(check)
app.command("compact")(compact)


if __name__ == "__main__":
    app(prog_name="python -m services.ops")
