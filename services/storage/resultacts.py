"""What a person rules about results: the matches that are meant, and each act once."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from matchmaker.ladder import Action, Treatment
from services.storage import holds, rulings
from services.storage.pool import Connection
from services.storage.refold import Summary
from services.storage.rulings import RefusedError, Ruling
from services.storage.verdicts import own_ladder


async def rule_once(connection: Connection, ruling: Ruling, match_ids: Sequence[UUID]) -> Summary | None:
    """Rule about these matches; about all that the ruling's incident stands for when none is named.

    None, and nothing changes, when the ruling of this id is stored already. Raises RefusedError, and UnknownModelError
    when a decision cannot be computed by this release; nothing was changed then.
    """
    async with connection.transaction():
        await own_ladder(connection)
        stored = await connection.fetchval(
            "select action from rating_ruling where ruling_id = $1", ruling.ruling_id
        )
        if stored is not None:
            if stored != ruling.action:
                raise RefusedError(f"ruling {ruling.ruling_id} is another one")
            return None
        meant = list(match_ids)
        if ruling.incident_id is not None:
            of_incident = await _meant(connection, ruling.action, ruling.incident_id)
            meant = meant or of_incident
            if not meant:
                raise RefusedError(
                    f"there is nothing to {ruling.action} because of incident {ruling.incident_id}"
                )
        return await rulings.rule_as_owner(connection, ruling, meant)


async def _meant(connection: Connection, action: Action, incident_id: UUID) -> list[UUID]:
    """The matches that an incident stands for."""
    concerned = await holds.concerned(connection, incident_id)
    if concerned is None:
        raise RefusedError(f"there is no incident {incident_id}")
    if action is not Action.HOLD:
        return await rulings.held_by(connection, incident_id)
    now = await rulings.treatments(connection, concerned)
    return [match_id for match_id in concerned if now[match_id].treatment is Treatment.COUNTS]
