"""The rules as the service explains them: to everybody, in three languages, and never at the cost of a clock."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from client.errors import from_rpc
from client.rules import ask
from engine.rules.book import LANGUAGES, TAG_LENGTH_MAX, load
from engine.rules.figures import FIGURES
from engine.seats import SEATS, SOUTH
from spectacularbid.match.v1 import table_pb2
from spectacularbid.rules.v1 import rules_service_pb2 as pb
from spectacularbid.rules.v1.rules_service_pb2_grpc import RulesServiceStub
from tests.engine.tables import deal, play
from tests.seats import SECONDS_MAX, Table, scripted
from tests.stack import Stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")


def stub(made: Stack) -> RulesServiceStub:
    return RulesServiceStub(made.channel("matchmaking"))


async def test_the_rules_are_told_without_a_token_with_their_figures_as_data(shared: Stack) -> None:
    for language, name in LANGUAGES.items():
        answer = await stub(shared).GetRules(pb.GetRulesRequest(language=language))
        book = load(language)
        assert (answer.language, answer.version) == (language, book.version)
        assert (language, name) in {(each.tag, each.name) for each in answer.available}
        figures = [
            block.figure
            for chapter in answer.rules.chapters
            for block in chapter.blocks
            if block.HasField("figure")
        ]
        assert {
            figure.name: (figure.layout.count, figure.points, len(figure.layout.placements))
            for figure in figures
        } == {
            name: (figure.layout.total, figure.points, len(figure.layout.placements))
            for name, figure in FIGURES.items()
        }
        assert all(sum(end.counts for end in figure.layout.ends) == figure.layout.count for figure in figures)
        request = pb.GetRulesRequest(language=language, known_version=book.version)
        assert not (await stub(shared).GetRules(request)).HasField("rules")


async def test_the_client_shows_what_the_service_serves(
    shared: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when its own text is another one: the whole book comes over the wire as it is written."""
    other = load("en")._replace(version="other", chapters=())
    monkeypatch.setattr("client.rules.load", lambda _: other)
    for language in LANGUAGES:
        found = await ask(shared.address("matchmaking"), language)
        assert found.book == load(language)
        assert not found.fault


@pytest.mark.parametrize(
    ("asked", "answered"), [("", "en"), ("hi-IN", "hi"), ("JA_jp", "ja"), ("fr", "en"), ("zh-Hant", "en")]
)
async def test_another_language_is_answered_in_english_with_those_there_are(
    shared: Stack, asked: str, answered: str
) -> None:
    answer = await stub(shared).GetRules(pb.GetRulesRequest(language=asked, known_version="of old"))
    assert answer.language == answered
    assert {each.tag: each.name for each in answer.available} == LANGUAGES
    assert answer.rules.title == load(answered).title


@pytest.mark.parametrize("tag", ["?", "x" * (TAG_LENGTH_MAX + 1), "日本語"])
async def test_what_is_no_language_is_malformed(shared: Stack, tag: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await stub(shared).GetRules(pb.GetRulesRequest(language=tag))
    error = from_rpc(failed.value)
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")
    assert "ja (日本語)" in error.message


async def test_asking_in_the_middle_of_a_turn_changes_nothing_of_it(shared: Stack) -> None:
    """Rule 6.6: the same decision goes on, with the same clock, and its answer is the one that counts."""
    table = await Table.create(shared, deals=scripted(deal("6|6", "1|6")))
    await table.do(play(SEATS[0], "6|6"))
    before = await table.snapshot(SOUTH)
    for language in ("ja", "hi", "en", "fr"):
        await stub(shared).GetRules(
            pb.GetRulesRequest(language=language), metadata=table.players[SOUTH].metadata
        )
    after = await table.snapshot(SOUTH)
    assert after.sequence == before.sequence
    old, new = before.table.prompt, after.table.prompt
    assert (new.decision_id, new.turn, new.to_act) == (old.decision_id, old.turn, table_pb2.SEAT_SOUTH)
    assert new.clock.running == table_pb2.SEAT_SOUTH
    assert new.clock.remaining_ms <= old.clock.remaining_ms
    await table.do(play(SOUTH, "1|6", "6|6 line_a"), decision_id=old.decision_id)


async def test_who_asks_for_the_rules_until_the_deadline_has_lost_on_time(shared: Stack) -> None:
    """Rule 6.6: asking stops no clock, however often it is done."""
    table = await Table.create(shared, deals=scripted(deal("6|6")), time_control=time_control(0, 1000))
    north = SEATS[0]
    async with asyncio.timeout(SECONDS_MAX):
        while not (view := await table.view(north)).HasField("outcome"):
            await stub(shared).GetRules(pb.GetRulesRequest(), metadata=table.players[north].metadata)
    assert (view.outcome.winner, view.outcome.cause) == (table_pb2.SEAT_SOUTH, table_pb2.CAUSE_TIME)
