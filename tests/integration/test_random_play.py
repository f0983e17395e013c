"""Many matches at once, played at random by seats that also send nonsense: whatever arrives, one request has one effect."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from engine.seats import NORTH, BySeat
from engine.tiles import DOUBLE_SIX
from services.storage import matches
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.integration.soundness import sound
from tests.seats import Sitting, legal_commands, new_id, tile_to_pb
from tests.stack import Stack, seat_to_pb

pytestmark = pytest.mark.asyncio(loop_scope="session")

MATCHES = 20
PORTS = [number for number in table_pb2.Port.values() if number]


@dataclass
class Wild(Sitting):
    """Answers each question, and around the answer sends what a broken, late or hostile client would."""

    seat: table_pb2.Seat.ValueType = table_pb2.SEAT_UNSPECIFIED
    sent: list[pb.SubmitRequest] = field(default_factory=list)

    def choose(self, prompt: table_pb2.Prompt) -> list[pb.SubmitRequest]:
        """The answer, once or several times, between other things."""
        if prompt.to_act == self.seat:
            assert legal_commands(prompt.legal), "whoever is to act can do something (FC-67)"
        answer = super().choose(prompt)
        if not answer:
            return []
        decision_id = prompt.decision_id
        burst = [*answer, *self.around(decision_id)]
        self.rng.shuffle(burst)
        # Nonsense may come before or after; so may the answer again.
        burst += self.rng.choices(answer, k=self.rng.randrange(3))
        if self.sent and self.rng.random() < 0.5:
            burst.append(self.rng.choice(self.sent))
        if self.rng.random() < 0.2:
            reused = pb.SubmitRequest()
            reused.CopyFrom(answer[0])
            reused.decision_id += 1
            burst.append(reused)
        self.sent += burst
        return burst

    def around(self, decision_id: int) -> list[pb.SubmitRequest]:
        """Requests that are wrong, with luck."""
        rng = self.rng
        wrong = []
        for _ in range(rng.randrange(3)):
            command = self.nonsense()
            number = rng.choice([decision_id, decision_id, decision_id - 1, decision_id + 1, 0, -1])
            request = pb.SubmitRequest(request_id=new_id(), decision_id=number, command=command)
            if rng.random() < 0.1:
                request.seat = rng.choice([table_pb2.SEAT_NORTH, table_pb2.SEAT_SOUTH])
            wrong.append(request)
        return wrong

    def nonsense(self) -> pb.Command:
        """Any command but Resign, most of them wrong now."""
        rng = self.rng
        tile, other = (tile_to_pb(tile.text) for tile in rng.sample(DOUBLE_SIX, 2))
        end = table_pb2.End(tile=other, port=rng.choice(PORTS))
        return rng.choice(
            [
                pb.Command(play=pb.PlaceTile(tile=tile, end=end)),
                pb.Command(play=pb.PlaceTile(tile=tile)),
                pb.Command(play=pb.PlaceTile(tile=table_pb2.Tile(low=3))),
                pb.Command(bid=pb.Bid(amount=rng.randrange(-10, 320))),
                pb.Command(bid=pb.Bid()),
                pb.Command(draw=pb.Draw()),
                pb.Command(pass_turn=pb.Pass()),
                pb.Command(accept=pb.Accept()),
                pb.Command(decline=pb.Decline()),
                pb.Command(start=pb.Start()),
                pb.Command(continue_round=pb.Continue()),
                pb.Command(reveal=pb.Reveal()),
                pb.Command(),
            ]
        )


@pytest.mark.parametrize("seed", [1, 2])
async def test_one_request_has_one_effect_whatever_else_arrives(shared: Stack, seed: int) -> None:
    """Twenty matches at once. Every answer to a request is the same answer; each effect is in the log once and was asked for;
    what was refused left nothing; the sum of the balances is 300, the tiles are 28, the numbers dense."""
    rng = random.Random(seed)
    reasons: Counter[str] = Counter()

    async def one_match(number: int) -> None:
        players = BySeat(*await shared.players(2))
        jockey = table_pb2.SEAT_NORTH if number % 3 == 0 else table_pb2.SEAT_UNSPECIFIED
        match_id = await shared.create(players, jockey=jockey)
        sittings = [
            Wild(
                shared.matches(),
                players[seat].metadata,
                match_id,
                random.Random(rng.random()),
                patience=40,
                seat=seat_to_pb(seat),
            )
            for seat in (NORTH, NORTH.opponent)
        ]
        await asyncio.gather(*(sitting.play() for sitting in sittings))
        await sound(shared, match_id)
        log = await matches.get_log(shared.pool, match_id)
        effects = {
            entry.request_id: (entry.first_sequence, entry.last_sequence)
            for entry in log
            if entry.request_id is not None
        }
        sent = {request.request_id for sitting in sittings for request in sitting.sent}
        assert effects.keys() <= sent
        for sitting in sittings:
            for request_id, answers in sitting.answers.items():
                assert request_id in sent or not request_id
                applied = {
                    (answer.applied.first_sequence, answer.applied.last_sequence)
                    for answer in answers
                    if answer.HasField("applied")
                }
                assert len(applied) <= 1
                if applied:
                    assert effects[request_id] in applied
                for answer in answers:
                    reasons[answer.refused.reason_word or "APPLIED"] += 1

    await asyncio.gather(*(one_match(number) for number in range(MATCHES)))
    assert reasons["APPLIED"] > 20 * MATCHES
    expected = {
        "STALE_DECISION",
        "MALFORMED",
        "REQUEST_ID_REUSED",
        "NOT_YOUR_TURN",
        "NO_AUCTION",
        "NOT_SEATED",
    }
    assert expected <= reasons.keys()
    assert "INTERNAL" not in reasons
