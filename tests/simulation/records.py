"""What is stored of a match when it is over: outcome, log, banks, points, credits, evidence, and what was told of it."""

from __future__ import annotations

import json
from typing import Any

from engine.clock import MILLISECOND, SECOND
from engine.event import MatchEnded, TileDrawn, TurnTimed
from engine.eventjson import event_from_json
from engine.match import Cause, Match, evolve
from engine.seats import SEATS
from engine.tiles import ALL_TILES, tile_set
from services.clock.explanation import explain
from services.game.story import Audience, Story
from services.storage.evidence import get_time_facts
from services.storage.matches import get_log
from services.storage.script import first_state
from services.wire import clock_messages as m
from tests.simulation.connections import Reader, at_once
from tests.simulation.database import Database, Row
from tests.simulation.declared import LATE_NS, concerns
from tests.simulation.world import World
from tests.told import events_of


class Records:
    """Looks at all of it."""

    def __init__(self, world: World, database: Database) -> None:
        self.world = world
        self.database = database
        self.severe = False
        self.told: dict[tuple[str, str, int], Any] = {}
        """What left the processes, by match, audience and sequence."""

    def look(self, match_id: str) -> None:
        """Everything about one match."""
        world, tables = self.world, self.database.tables
        outcome = tables.outcome.get(match_id)
        if outcome is None:
            world.violate("I21", f"the match has no outcome; its owner is {tables.owner[match_id]}")
            return
        world.count(f"ended by {outcome['cause']}")
        if outcome["cause"] == Cause.VOID:
            self._void(match_id, outcome)
        if outcome["cause"] == Cause.TIME:
            self._proven(outcome)
        state = self._replayed(match_id)
        told = state.outcome
        if told is None or (told.winner, told.cause) != (outcome["winner"], outcome["cause"]):
            world.violate("I4", f"the outcome row says {outcome['winner']}, the log {told}")
        self._declared(match_id, outcome)
        self._credits(match_id, outcome)
        self._turns(match_id)
        self._retold(match_id)
        self._explained(match_id)

    def _void(self, match_id: str, outcome: Row) -> None:
        self.world.count(f"void {outcome['detail']}")
        evidence = self._evidence(outcome)
        if outcome["detail"] == "operator":
            tables = self.database.tables
            said = tables.incident.get(json.loads(evidence)["incident_id"])
            engine_id = tables.evidence[str(outcome["evidence_id"])]["engine_id"]
            if said is None or not concerns(tables, said, match_id, engine_id):
                self.world.violate("declared", f"void, and nobody declared that: {evidence}")
        elif not self.severe:
            self.world.violate("void", f"void without cause: {outcome['detail']} {evidence}")

    def _declared(self, match_id: str, outcome: Row) -> None:
        """What an operator declares reaches every match that goes on."""
        tables = self.database.tables
        ended_at = tables.log[match_id][-1]["true_at"]
        for incident in tables.incident.values():
            if self.severe or outcome["cause"] == Cause.VOID or "true_at" not in incident:
                continue
            if ended_at > incident["true_at"] + LATE_NS and concerns(tables, incident, match_id, ""):
                self.world.violate("declared", f"{match_id} went on in spite of {incident['detail']}")

    def _evidence(self, outcome: Row) -> Any:
        evidence = self.database.tables.evidence.get(str(outcome["evidence_id"]))
        return None if evidence is None else evidence["detail"]

    def _proven(self, outcome: Row) -> None:
        """I7: the proof of a timeout is stored, and is of the deadline or later."""
        evidence = self._evidence(outcome)
        detail = {} if evidence is None else json.loads(evidence)
        self.world.count("checked I7")
        if detail.get("proof_ns", 0) < detail.get("deadline_ns", 1):
            self.world.violate("I7", f"the outcome rests on {evidence}")

    def _replayed(self, match_id: str) -> Match:
        world, tables = self.world, self.database.tables
        state, sequence, requests, ends = first_state(tables.match[match_id]), 0, set(), 0
        for entry in tables.log[match_id]:
            if entry["first_sequence"] != sequence + 1:
                world.violate("dense", f"sequence {entry['first_sequence']} follows {sequence}")
            if state.outcome is not None:
                world.violate("I4", f"ruling {entry['revision']} comes after the outcome")
            if entry["request_id"] is not None and entry["request_id"] in requests:
                world.violate("once", f"request {entry['request_id']} had two effects")
            requests.add(entry["request_id"])
            for event in map(event_from_json, json.loads(entry["events"])):
                before, state = state, evolve(state, event)
                sequence += 1
                self._banks(entry, event, before, state)
                ends += isinstance(event, MatchEnded)
            if sequence != entry["last_sequence"]:
                world.violate("dense", f"sequence {entry['last_sequence']} is stored for {sequence}")
            self._pieces(state)
        if ends != 1:
            world.violate("I4", f"{match_id} ended {ends} times")
        return state

    def _banks(self, entry: Row, event: object, before: Match, after: Match) -> None:
        """I1: banks only shrink, by what is charged. I19: only the bank of the seat whose turn it was."""
        for seat in SEATS:
            was, is_ = before.banks[seat], after.banks[seat]
            if not 0 <= is_ <= was:
                self.world.violate("I1", f"ruling {entry['revision']} turned a bank of {was} into {is_}")
            if was == is_:
                continue
            if not isinstance(event, TurnTimed) or event.seat is not seat or before.to_act is not seat:
                self.world.violate(
                    "I19", f"ruling {entry['revision']} moved a bank while no clock ran for it"
                )
            elif event.charge_ns != was - is_:
                self.world.violate(
                    "I1", f"ruling {entry['revision']} charged {event.charge_ns}, not {was - is_}"
                )

    def _credits(self, match_id: str, outcome: Row) -> None:
        """I13: not more than the limits allow, and all of it stands on incidents."""
        tables, policy = self.database.tables, m.Policy()
        credited = sum(entry["credited_ns"] or 0 for entry in tables.log[match_id])
        covered = sum(
            touch["credited_ns"]
            for (_, touched), touch in tables.touched.items()
            if touched == match_id and touch["effect"] == "credited"
        )
        if credited > covered:
            self.world.violate("I13", f"{credited} ns were credited, incidents cover {covered}")
        if credited > policy.credit_total_max_ns and outcome["cause"] != Cause.VOID:
            self.world.violate("I13", f"{credited / SECOND:.3f} s were credited and the match is not void")
        for (incident_id, touched), touch in tables.touched.items():
            stall = touched == match_id and tables.incident[incident_id]["kind"] == "stall"
            if stall and touch["credited_ns"] > policy.gap_max_ns and outcome["cause"] != Cause.VOID:
                self.world.violate("I13", f"{touch['credited_ns'] / SECOND:.3f} s were credited at once")
        self.world.count("credited ms", credited // MILLISECOND)
        self.world.count("checked I13")

    def _turns(self, match_id: str) -> None:
        """I4: one command ends a turn, and only draws come before it in the same one."""
        last, ended = 0, False
        for entry in self.database.tables.log[match_id]:
            if entry["start_ns"] is None:
                continue
            turn = entry["turn"]
            if turn < last or (turn == last and ended):
                self.world.violate("I4", f"ruling {entry['revision']} is of turn {turn}, which was over")
            events = map(event_from_json, json.loads(entry["events"]))
            last, ended = turn, not any(isinstance(event, TileDrawn) for event in events)
        self.world.count("checked I4")

    def _pieces(self, state: Match) -> None:
        balances = state.balances
        if balances.north + balances.south != 300 or min(balances) < 0:
            self.world.violate("points", f"{balances} points")
        if state.round_no:
            table = tile_set(placement.tile for placement in state.layout.placements)
            piles = (state.north_hand, state.south_hand, tile_set(state.boneyard), table)
            if sum(piles) != ALL_TILES:
                self.world.violate("tiles", "28 tiles, each once, are not there")

    def _retold(self, match_id: str) -> None:
        row = self.database.tables.match[match_id]
        story, at_first = Story(row), dict[tuple[Any, int], Any]()
        hearers = {Audience(audience) for told_match, audience, _ in self.told if told_match == match_id}
        for entry in at_once(get_log(Reader(self.database), match_id)):  # type: ignore[arg-type]
            story.tell(map(event_from_json, entry.event_list()), entry.credited_ns or 0)
            for hearer in hearers:
                for each in events_of(story, hearer, entry.first_sequence - 1):
                    # What shows a shared device a hand is told without it once the turn is over.
                    at_first[hearer, each.sequence] = each
        at_last = {hearer: events_of(story, hearer, 0) for hearer in hearers}
        for (told_match, audience, sequence), event in self.told.items():
            if told_match != match_id:
                continue
            stored = at_last[Audience(audience)]
            if sequence > len(stored) or event not in (at_first[audience, sequence], stored[sequence - 1]):
                self.world.violate(
                    "I17", f"event {sequence} was told to {audience} and is not what is stored"
                )
                return

    def _explained(self, match_id: str) -> None:
        facts = at_once(get_time_facts(Reader(self.database), match_id))  # type: ignore[arg-type]
        assert facts is not None
        made = explain(facts, first_state(self.database.tables.match[match_id]))
        for fault in made.faults:
            self.world.violate("I23", f"not reproduced: {fault}")
