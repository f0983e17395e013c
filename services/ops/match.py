"""Void a match before it is rated."""

from __future__ import annotations

import sys
import uuid
from typing import Annotated, Final
from uuid import UUID

import typer

from services.ops.acts import Author, Emergency, Leader, id_of, reason_of, way_of
from services.ops.database import with_database
from services.ops.leader import REFUSED, ask
from services.storage import annulments
from services.storage.annulments import Voided
from services.storage.pool import Connection
from services.storage.rulings import Act, RefusedError
from services.wire.clock_messages import Policy
from services.wire.results import VOIDED
from spectacularbid.internal.operations.v1 import results_pb2 as pb

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

_SAID: Final = {
    Voided.LIVE: "it was live: it becomes void within about a second, and is not rated in any case",
    Voided.ANNULLED: "it was over: its result is annulled, and will never be rated",
}


@app.callback()
def _group() -> None:
    """Void a match before it is rated."""


@app.command("void")
def void(
    match: Annotated[str, typer.Argument(metavar="MATCH", help="The match, by its id.")],
    reason: Annotated[str, typer.Option(help="Why; its players may be told.")],
    address: Leader = "",
    database_url: Emergency = "",
    author: Author = "",
) -> None:
    """A live match becomes void; one that is over and not rated, or held, will never be. A rated one is refused."""
    way, match_id, why = way_of(address, database_url, author), id_of(match, "MATCH"), reason_of(reason)
    incident_id = uuid.uuid4()
    if way.database_url:
        act = Act(way.author, why)

        async def in_database(connection: Connection) -> Voided:
            return await annulments.void_match(connection, UUID(match_id), act, incident_id, Policy().version)

        try:
            voided = with_database(way.database_url, in_database)
        except RefusedError as refused:
            sys.stderr.write(f"nothing was changed: {refused}\n")
            raise typer.Exit(REFUSED) from None
    else:
        request = pb.VoidMatchRequest(incident_id=str(incident_id), match_id=match_id, reason=why)
        answer = ask(way.address, lambda service, options: service.VoidMatch(request, **options))
        voided = VOIDED[answer.voided]
    typer.echo(f"incident {incident_id}: {_SAID[voided]}")
