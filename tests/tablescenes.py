"""Scripted positions of a seek and of a table that is played, for pictures of the screens."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import grpc

from client.errors import Refused
from client.match import News
from client.table import Clock, TableState
from client.terminal.canvas import Canvas
from client.terminal.desk import Desk
from client.terminal.refusals import why_refused
from client.terminal.seeking import Seeking, draw_seeking
from client.terminal.selection import Selection, fitting
from client.terminal.story import lines
from client.terminal.theme import Theme
from engine.match import legal
from engine.refusal import Refusal
from engine.seats import NORTH, BySeat, Seat
from engine.state import Phase
from engine.tiles import Port, Tile
from services.game.story import Audience
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as pb
from tests.client.tables import carry_out, new_story, news, told
from tests.engine.randomplay import choose

_BRANCHES = (Port.BRANCH_A, Port.BRANCH_B)
Draw = Callable[[int, int, Theme], Canvas]


def desks(seed: int) -> Iterator[Desk]:
    """What north sees in a random match, each time something has happened."""
    rng = random.Random(seed)
    story = new_story()
    desk = Desk(told(None, news(story, Audience.NORTH, 0)))
    while not story.over:
        assert carry_out(story, choose(story.state, legal(story.state), rng), rng) is None
        message = news(story, Audience.NORTH, desk.table.sequence)
        table = told(desk.table, message)
        told_lines = tuple(lines(News(table, tuple(message.events), snapshot=False)))
        desk = desk.told(table, told_lines)
        yield desk


def first(seed: int, wanted: Callable[[TableState], bool]) -> Desk:
    """The first desk of this match where a question to north is as wanted."""
    return next(desk for desk in desks(seed) if desk.table.asks_me and wanted(desk.table))


def clocked(desk: Desk, running: Seat | None, delay_ms: int, banks_ms: BySeat[int]) -> Desk:
    """The same with these clocks."""
    remaining = 0 if running is None else delay_ms + banks_ms[running]
    clock = Clock(running, banks_ms, delay_ms, remaining, as_of=0.0)
    return replace(desk, table=replace(desk.table, prompt=replace(desk.table.prompt, clock=clock)))


def seek() -> Seeking:
    """A seek that has waited for a while."""
    estimate = pb.WaitEstimate(median_ms=9_000, most_ms=41_000, basis=37, similar_rating=True)
    facts = pb.Waiting(waited_ms=17_000, players_waiting=4, rating_window=120, estimate=estimate)
    return Seeking(rated=True, name="Nora", facts=facts, since_ms=700)


def auction() -> Desk:
    """North is asked to answer a bid, and thinks of a raise."""
    desk = first(4, lambda table: table.prompt.phase is Phase.AUCTION and table.bidder is not None)
    bid = desk.table.prompt.legal.bid
    assert bid is not None
    chosen = replace(desk, selection=Selection(amount=bid.lowest + bid.step))
    return clocked(chosen, NORTH, 7_400, BySeat(96_300, 118_000))


def long_layout() -> Desk:
    """A long layout with two branches, and a tile that fits."""

    def wanted(table: TableState) -> bool:
        grown = len(table.ends) == 4 and not any(each.end.port in _BRANCHES for each in table.ends)
        return len(table.placements) >= 16 and grown and len(table.prompt.legal.plays) >= 2

    desk = next(
        desk for seed in range(400) for desk in desks(seed) if desk.table.asks_me and wanted(desk.table)
    )
    tile = max((tile for tile in desk.table.hand), key=lambda tile: len(fitting(desk.table, tile)))
    chosen = replace(desk, selection=Selection(tile, fitting(desk.table, tile)[0]))
    return clocked(chosen, NORTH, 3_000, BySeat(74_000, 51_000))


def refused() -> Desk:
    """North has tried a tile that does not fit."""

    def misfits(table: TableState) -> list[Tile]:
        fits = {tile for tile, _ in table.prompt.legal.plays}
        return [tile for tile in table.hand if tile not in fits and fits]

    desk = first(3, lambda table: len(table.placements) > 4 and len(misfits(table)) > 2)
    wrong = misfits(desk.table)[0]
    reason = Refusal.TILE_DOES_NOT_FIT
    error = Refused(grpc.StatusCode.FAILED_PRECONDITION, reason, "", metadata={"rule": reason.rule})
    said = replace(desk, selection=Selection(wrong)).says(f"Refused: {why_refused(error)}", "bad")
    return clocked(said, NORTH, 0, BySeat(100_900, 120_000))


def clocks_low() -> Desk:
    """The delay is used up and the bank nearly gone."""
    desk = first(6, lambda table: len(table.placements) > 8 and len(table.prompt.legal.plays) > 1)
    return clocked(desk, NORTH, 0, BySeat(6_790, 14_200))


def scenes() -> Mapping[str, Draw]:
    """Each screen by its name."""

    def of(desk: Desk) -> Draw:
        return lambda width, height, theme: desk.draw(width, height, 0.0, theme)

    seeking = seek()
    return {
        "seek": lambda width, height, theme: draw_seeking(seeking, width, height, theme),
        "auction": of(auction()),
        "layout": of(long_layout()),
        "refused": of(refused()),
        "clocks-low": of(clocks_low()),
    }
