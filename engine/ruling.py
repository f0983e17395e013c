"""What comes of a command: the events it causes, or the reason it changes nothing.

These functions look and never change. They know nothing of time: the caller asks the clock first, and puts the
`TurnTimed` that `timed` builds in front of the events of a command that was in time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from engine import auction, clock
from engine.command import Accept, Bid, Continue, Decline, Draw, Pass, Play, Resign, Reveal, Start
from engine.deal import commitment
from engine.event import (
    BidMade,
    Continued,
    MatchEnded,
    OpeningWon,
    PointsMoved,
    Reason,
    Revealed,
    RoundBlocked,
    RoundDealt,
    RoundWentOut,
    Started,
    TileDrawn,
    TilePlaced,
    TurnPassed,
    TurnTimed,
)
from engine.outcome import Cause, Outcome
from engine.points import blocked as blocked_points
from engine.points import lower_total, payable, score
from engine.refusal import Refusal
from engine.seats import NORTH, BySeat
from engine.shuffle import drawn, seed_commitment
from engine.state import Match, Mode, Phase
from engine.tiles import pips_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.command import Command
    from engine.deal import Deal
    from engine.event import Event
    from engine.seats import Seat
    from engine.tiles import Port

_new: Final = tuple.__new__
_AUCTION: Final = Phase.AUCTION
_OPENING: Final = Phase.OPENING
_AWAITING_START: Final = Phase.AWAITING_START
_AWAITING_DEAL: Final = Phase.AWAITING_DEAL
_SETTLED: Final = Phase.SETTLED
_OVER: Final = Phase.OVER

_SCORE: Final = Reason.SCORE
_ENDS: Final = clock.Effect.ENDS
_CONTINUES: Final = clock.Effect.CONTINUES

_GATES: Final = {
    Phase.OVER: Refusal.MATCH_OVER,
    Phase.AWAITING_START: Refusal.NOT_STARTED,
    Phase.SETTLED: Refusal.ROUND_SETTLED,
    Phase.AWAITING_DEAL: Refusal.AWAITING_DEAL,
}
"""What a phase answers to the commands it has no use for."""

Ruling = tuple["Event", ...] | Refusal


def decide(state: Match, command: Command) -> Ruling:
    """Answer one command: the events it causes, or the first reason for which it changes nothing."""
    if isinstance(command, Play):  # a class pattern takes five times as long, and most commands are plays
        if state.to_act is not command.seat:
            return _not_to_act(state, command.seat)
        return _play(state, command)
    match command:
        case Draw():
            if state.to_act is not command.seat:
                return _not_to_act(state, command.seat)
            return _draw(state, command)
        case Pass() | Bid() | Accept() | Decline():
            if state.to_act is not command.seat:
                return _not_to_act(state, command.seat)
            return _pass(state, command) if isinstance(command, Pass) else _speak(state, command)
        case Start():
            if state.phase is _AWAITING_START:
                return _pressed(state, Started(command.seat, command.contribution))
            return _GATES.get(state.phase, Refusal.START_NOT_DUE)
        case Continue():
            if state.phase is _SETTLED:
                return _pressed(state, Continued(command.seat, command.contribution))
            return _GATES.get(state.phase, Refusal.CONTINUE_NOT_DUE)
        case Reveal():
            return _reveal(state, command)
        case Resign():
            if state.phase in (Phase.OVER, Phase.AWAITING_START):
                return _GATES[state.phase]
            return (MatchEnded(Outcome(command.seat.opponent, Cause.RESIGNATION)),)
        case _:
            assert_never(command)


def deal_round(
    state: Match, deal: Deal, salt: bytes, *, next_commitment: str | None = None, scripted: bool = False
) -> Ruling:
    """Deal the next round (rule 2.1), committing to the deal; refused when none is due.

    ValueError when the salt has a wrong length.
    """
    number = state.round_no + 1
    return _no_deal_due(state) or (
        RoundDealt(
            number,
            deal,
            salt,
            commitment(deal, salt),
            next_commitment=next_commitment,
            scripted=scripted,
        ),
    )


def draw_round(
    state: Match, match_id: str, seed: bytes, contributions: BySeat[bytes], next_commitment: str
) -> Ruling:
    """Deal the next round from a seed that was committed to before and what the players added (rule 2.1).

    Refused when no deal is due. ValueError when the seed or a contribution has a wrong length.
    """
    number = state.round_no + 1
    return _no_deal_due(state) or (
        RoundDealt(
            number,
            drawn(match_id, number, seed, contributions),
            seed,
            seed_commitment(match_id, number, seed),
            contributions,
            next_commitment,
        ),
    )


def _no_deal_due(state: Match) -> Refusal | None:
    if state.phase is _OVER:
        return Refusal.MATCH_OVER
    return None if state.phase is _AWAITING_DEAL else Refusal.DEAL_NOT_DUE


def timed(state: Match, command: Command, waited_ns: int) -> TurnTimed:
    """What a command of the seat to act costs in time, when it arrived `waited_ns` after the clock went on.

    ValueError when that is at the deadline or later: then `expire` is the answer.
    """
    seat = state.to_act
    assert seat is not None, "a clock runs"
    effect = _CONTINUES if isinstance(command, Draw) else _ENDS
    cost = clock.settle(0, waited_ns, state.consumed_ns, state.banks[seat], state.delay_ns, effect)
    return TurnTimed(seat, state.turn, *cost)


def expire(state: Match) -> tuple[Event, ...]:
    """The deadline of the seat to act has passed: it loses on time (rule 6.7)."""
    seat = state.to_act
    assert seat is not None, "a clock runs"
    cost = clock.forfeit(state.banks[seat], state.delay_ns)
    return (
        TurnTimed(seat, state.turn, *cost),
        MatchEnded(Outcome(seat.opponent, Cause.TIME)),
    )


def void(state: Match, reason: str) -> tuple[Event, ...]:
    """A fault of the service made time undecidable: nobody wins (rule 6.8)."""
    assert state.phase is not Phase.OVER, "the match goes on"
    return (MatchEnded(Outcome(None, Cause.VOID, reason)),)


def cancel(state: Match, no_shows: Iterable[Seat]) -> tuple[Event, ...]:
    """These seats did not press Start within the limit: nobody wins (rule 7.2)."""
    assert state.phase is Phase.AWAITING_START, "the match has not begun"
    return (MatchEnded(Outcome(None, Cause.CANCELLED, " ".join(no_shows))),)


def _not_to_act(state: Match, seat: Seat) -> Refusal:
    """Why this seat, which is not to act, may not take a turn now."""
    gate = _GATES.get(state.phase)
    if gate is not None:
        return gate
    return Refusal.NOT_REVEALED if state.awaiting_reveal is seat else Refusal.NOT_YOUR_TURN


def _pressed(state: Match, event: Started | Continued) -> Ruling:
    return Refusal.ALREADY_PRESSED if event.seat in state.pressed else (event,)


def _reveal(state: Match, command: Reveal) -> Ruling:
    gate = _GATES.get(state.phase)
    if gate is not None:
        return gate
    if state.mode is not Mode.SAME_DEVICE:
        return Refusal.NOT_SAME_DEVICE
    if state.awaiting_reveal is not command.seat:
        return Refusal.REVEAL_NOT_DUE
    return (Revealed(command.seat, state.hands[command.seat]),)


def _speak(state: Match, command: Bid | Accept | Decline) -> Ruling:
    """One word in the auction (rules 5.2 to 5.8)."""
    if state.phase is not _AUCTION:
        return Refusal.NO_AUCTION
    jockey, bid = _jockey(state), state.standing_bid
    match command:
        case Bid(seat, amount):
            fault = auction.bid_fault(amount, seat, jockey, bid, state.balances[seat])
            return fault or (BidMade(seat, amount),)
        case Accept():
            if bid is None:
                return Refusal.NO_BID_STANDS
            waived = auction.discount(bid.seat, jockey, bid.amount)
            price = bid.amount - waived
            won = OpeningWon(bid.seat, price, waived)
            return (won, *_transfer(state, bid.seat.opponent, price, Reason.AUCTION))
        case Decline():
            return Refusal.BID_STANDS if bid is not None else (OpeningWon(jockey, 0, 0),)
        case _:
            assert_never(command)


def _jockey(state: Match) -> Seat:
    assert state.jockey is not None, "an auction has a jockey"
    return state.jockey


def _play(state: Match, command: Play) -> Ruling:
    phase = state.phase
    if phase is _AUCTION:
        return Refusal.AUCTION_OPEN
    seat, tile, end = command
    hand = state.north_hand if seat is NORTH else state.south_hand
    if not hand & tile.bit:
        return Refusal.TILE_NOT_IN_HAND
    joined: Port | None
    if phase is _OPENING:
        if state.forced_tile is not None and tile is not state.forced_tile:
            return Refusal.OPENING_TILE_FORCED
        if end is not None:
            return Refusal.END_GIVEN_FOR_OPENING
        joined, count = None, tile.pips
    else:
        if state.drawn_tile is not None and tile is not state.drawn_tile:
            return Refusal.MUST_PLAY_DRAWN_TILE
        layout = state.layout
        join = layout.joined(tile, end)
        if join is None:
            return layout.fault(end)
        joined, count = join
    placed = _new(TilePlaced, (seat, tile, end, joined, count))
    if (due := score(count)) == 0:
        return (placed,) if hand != tile.bit else (placed, RoundWentOut(seat))
    moves = _transfer(state, seat, due, _SCORE)
    if hand == tile.bit and len(moves) == 1:  # a match that is over has no next round (rule 7.8)
        return (placed, *moves, RoundWentOut(seat))
    return (placed, *moves)


def _draw(state: Match, command: Draw) -> Ruling:
    return _no_place_for_a_tile(state) or (
        (TileDrawn(command.seat, state.boneyard[0]),) if state.boneyard else Refusal.BONEYARD_EMPTY
    )


def _pass(state: Match, command: Pass) -> Ruling:
    refusal = _no_place_for_a_tile(state)
    if refusal is not None:
        return refusal
    if state.boneyard:
        return Refusal.MUST_DRAW
    passed = TurnPassed(command.seat)
    if state.passes == 0:
        return (passed,)
    totals = BySeat(pips_of(state.north_hand), pips_of(state.south_hand))
    winner = lower_total(totals)
    blocked = RoundBlocked(totals, winner)
    if winner is None:
        return (passed, blocked)
    due = blocked_points(totals[winner.opponent])
    return (passed, blocked, *_transfer(state, winner, due, Reason.BLOCKED))


def _no_place_for_a_tile(state: Match) -> Refusal | None:
    """Why the seat to act may neither draw nor pass: it has a tile to place. None when it has none."""
    if state.phase is _AUCTION:
        return Refusal.AUCTION_OPEN
    if state.phase is _OPENING:
        return Refusal.MUST_OPEN
    if state.drawn_tile is not None:
        return Refusal.MUST_PLAY_DRAWN_TILE
    assert state.to_act is not None, "checked before"
    return Refusal.MUST_PLAY if state.hand(state.to_act) & state.layout.fits else None


def _transfer(state: Match, to: Seat, due: int, reason: Reason) -> tuple[Event, ...]:
    """Move points; the match is over when that takes the payer's last (rules 1.2, 1.3). Nothing when none are due."""
    if due == 0:
        return ()
    balance = state.balances.south if to is NORTH else state.balances.north
    moved = _new(PointsMoved, (to, due, payable(due, balance), reason))
    if due >= balance:
        return (moved, MatchEnded(Outcome(to, Cause.BALANCE)))
    return (moved,)
