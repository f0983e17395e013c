"""A state of the engine as the public table that is drawn: the same value that is folded while a match is played."""

from __future__ import annotations

from dataclasses import replace

from client.table import NOTHING, Clock, OpenEnd, Placement, Player, Prompt, TableState, Transfer
from engine.clock import MILLISECOND
from engine.seats import BySeat
from engine.state import Match, Mode


def before(start: Match, *, match_id: str, players: BySeat[Player], rated: bool) -> TableState:
    """The table before anything happened."""
    banks = _milliseconds(start.banks)
    prompt = Prompt(
        decision_id=start.decision_id,
        turn=start.turn,
        to_act=None,
        kind=start.decision_kind,
        legal=NOTHING,
        clock=Clock(None, banks, 0, 0),
        phase=start.phase,
    )
    return TableState(
        match_id=match_id,
        sequence=0,
        seat=None,
        players=players,
        rated=rated,
        same_device=start.mode is Mode.SAME_DEVICE,
        bank_ms=max(banks),
        delay_ms=start.delay_ns // MILLISECOND,
        balances=start.balances,
        banks_ms=banks,
        round_no=0,
        hand=(),
        tiles=BySeat(0, 0),
        boneyard=0,
        placements=(),
        ends=(),
        spinner=None,
        count=0,
        last_transfer=None,
        jockey=start.jockey,
        bidder=None,
        standing_bid=0,
        pressed=(),
        commitment="",
        hand_totals=None,
        outcome=None,
        prompt=prompt,
    )


def after(base: TableState, state: Match, *, timed: bool) -> TableState:
    """The table of a later state of the match that `base` is of. The clocks stand at what the turn begins, or goes on, with:
    they are left out where the record has no times."""
    layout, bid, moved = state.layout, state.standing_bid, state.last_transfer
    banks = _milliseconds(state.banks)
    return replace(
        base,
        balances=state.balances,
        banks_ms=banks,
        round_no=state.round_no,
        tiles=BySeat(state.north_hand.bit_count(), state.south_hand.bit_count()),
        boneyard=len(state.boneyard),
        placements=tuple(Placement(*placed) for placed in layout.placements),
        ends=tuple(OpenEnd(end, end.value, counts) for end, counts in layout.open_ends),
        spinner=layout.spinner,
        count=layout.total,
        last_transfer=None if moved is None else Transfer(moved.to, moved.due, moved.moved, moved.reason),
        jockey=state.jockey,
        bidder=None if bid is None else bid.seat,
        standing_bid=0 if bid is None else bid.amount,
        pressed=state.pressed,
        commitment=state.commitment or "",
        hand_totals=state.hand_totals,
        outcome=state.outcome,
        prompt=replace(
            base.prompt,
            decision_id=state.decision_id,
            turn=state.turn,
            to_act=state.to_act,
            kind=state.decision_kind,
            phase=state.phase,
            awaiting_reveal=state.awaiting_reveal,
            clock=_clock(state, banks, timed=timed),
        ),
    )


def _clock(state: Match, banks: BySeat[int], *, timed: bool) -> Clock:
    if not timed or state.to_act is None or state.budget_ns is None:
        return Clock(None, banks, 0, 0)
    delay_left = max(0, state.delay_ns - state.consumed_ns)
    return Clock(state.to_act, banks, delay_left // MILLISECOND, max(0, state.budget_ns) // MILLISECOND)


def _milliseconds(nanoseconds: BySeat[int]) -> BySeat[int]:
    return nanoseconds.map(lambda each: each // MILLISECOND)
