"""What holds of every stored match, however it was played."""

from __future__ import annotations

from engine.tiles import ALL_TILES, tile_set
from services.storage import matches
from tests.stack import Stack


async def sound(made: Stack, match_id: str) -> None:
    """Every invariant of a stored match that does not depend on how it was played."""
    truth = await made.truth(match_id)
    log = await matches.get_log(made.pool, match_id)
    assert [entry.revision for entry in log] == list(range(1, len(log) + 1))
    last = 0
    for entry in log:
        assert entry.first_sequence == last + 1
        last = entry.last_sequence
    assert last == len(truth.events)
    requests = [entry.request_id for entry in log if entry.request_id is not None]
    assert len(requests) == len(set(requests))
    before = truth.states[0]
    for state in truth.states[1:]:
        assert sum(state.balances) == 300
        assert all(new <= old for new, old in zip(state.banks, before.banks, strict=True))
        if state.round_no:
            laid = tile_set(placed.tile for placed in state.layout.placements)
            piles = (laid, state.north_hand, state.south_hand, tile_set(state.boneyard))
            assert sum(piles) == ALL_TILES
        before = state
