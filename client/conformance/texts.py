"""The rules as they are explained to players: for everybody, in each language, and no clock hears of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import grpc

from client.conformance.bench import expect_error, failure
from client.conformance.check import checks_of, expect
from client.conformance.clocks import charge_of, control, counted, whole_turn
from client.conformance.hearing import Watching
from client.conformance.table import Table
from engine.seats import NORTH
from spectacularbid.rules.v1 import rules_service_pb2 as pb

if TYPE_CHECKING:
    from client.conformance.bench import Bench
    from spectacularbid.match.v1 import event_pb2

_LANGUAGES: Final = ("en", "hi", "ja")
_READING_SECONDS: Final = 0.3


async def _rules(bench: Bench, language: str, known_version: str = "") -> pb.GetRulesResponse:
    request = pb.GetRulesRequest(language=language, known_version=known_version)
    return await bench.ask(bench.rules.GetRules, request, None)


async def the_rules_are_told_in_each_language(bench: Bench) -> None:
    """GetRules needs no token; each language has its text, told once for its version; others get English."""
    for language in _LANGUAGES:
        told = await _rules(bench, language)
        expect(told.language == language, f"asked for {language}, told in {told.language}")
        expect({each.tag for each in told.available} >= set(_LANGUAGES), "not every language is named")
        expect(told.rules.title and told.rules.chapters, f"the text in {language} is empty")
        again = await _rules(bench, language, told.version)
        expect(not again.HasField("rules"), "the text is sent to who has this version of it")
        expect(again.version == told.version, "the version changed, and nothing else did")
    expect(
        (await _rules(bench, "tlh")).language == "en",
        "a language nobody has a text in is not told in English",
    )
    wrong = await failure(_rules(bench, "no language tag"))
    expect_error(wrong, grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")


async def asking_for_the_rules_stops_no_clock(bench: Bench) -> None:
    """Who reads the rules in the middle of a turn pays for the time (rule 6.6)."""
    async with (
        await Table.create(bench, **control(600_000, 1)) as table,
        Watching.of(table, NORTH) as watching,
    ):
        await watching.read()

        async def reading() -> event_pb2.TurnTimed:
            seat = await table.to_act()
            begun = time.monotonic()
            while time.monotonic() - begun < _READING_SECONDS:
                await _rules(bench, "en")
            applied = await whole_turn(table, seat)
            return charge_of((await watching.reached(applied.last_sequence)).events, applied)

        await counted(reading, _READING_SECONDS * 1000)


CHECKS: Final = checks_of("texts", the_rules_are_told_in_each_language, asking_for_the_rules_stops_no_clock)
