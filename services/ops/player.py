"""Take from players what they must not have any more."""

from __future__ import annotations

import sys
import uuid
from datetime import UTC, datetime
from typing import Annotated

import typer

from services.common.auth import PLAYER_ID
from services.ops.acts import Author, Emergency, Leader, reason_of, way_of
from services.ops.database import with_database
from services.ops.leader import ask
from services.storage import revocations
from services.storage.pool import Connection
from services.storage.revocations import NewRevocation, Revoked
from spectacularbid.internal.operations.v1 import operations_service_pb2 as pb

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


@app.callback()
def _group() -> None:
    """Take from players what they must not have any more."""


@app.command("revoke-tokens")
def revoke_tokens(
    player: Annotated[str, typer.Argument(metavar="PLAYER", help="The player, by id.")],
    reason: Annotated[str, typer.Option(help="Why; it is kept.")],
    address: Leader = "",
    database_url: Emergency = "",
    author: Author = "",
) -> None:
    """All tokens of a player that have been issued so far count no more, and streams opened with them end.

    Tokens that the issuer makes later count again: whoever is to stay away must get none. A guest has no way to another.
    """
    way, why, revocation_id = way_of(address, database_url, author), reason_of(reason), uuid.uuid4()
    if not PLAYER_ID.match(player):
        raise typer.BadParameter(f"{player!r} is no player id", param_hint="PLAYER")
    if way.database_url:

        async def in_database(connection: Connection) -> Revoked:
            new = NewRevocation(revocation_id, player, way.author, why, "database")
            return await revocations.revoke(connection, new)

        revoked = with_database(way.database_url, in_database)
    else:
        request = pb.RevokeTokensRequest(revocation_id=str(revocation_id), player_id=player, reason=why)
        answer = ask(way.address, lambda service, options: service.RevokeTokens(request, **options))
        revoked = Revoked(answer.revoked_at.ToDatetime(UTC), answer.known)
    _say(player, revoked.at, known=revoked.known)


def _say(player: str, at: datetime, *, known: bool) -> None:
    typer.echo(f"tokens of {player} issued up to {at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC count no more")
    if not known:
        sys.stderr.write(f"no player {player} has ever been here: look whether the id is right\n")
