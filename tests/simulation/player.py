"""Simulated players: they think, often until the last moment, press what the rules allow and sometimes what not,
lose their connections, repeat themselves, and never trust an answer they did not get."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Any, Final

from engine.clock import MILLISECOND, SECOND
from engine.command import Bid, Command, Continue, Draw, Play, Resign, Reveal, Start
from engine.match import Match, Phase, legal
from engine.seats import Seat
from engine.tiles import Tile
from services.game.answers import Answered
from services.game.course import Answer
from services.game.room import Room
from services.game.story import Story
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.engine.randomplay import bids, commands
from tests.simulation.game import GameProcess, Heard
from tests.simulation.process import jitter

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

ANSWER_PATIENCE_NS: Final = 4 * SECOND
SILENCE_NS: Final = 12 * SECOND
NOTICED: Final = 0.8
"""How many broken streams are noticed by their process at once."""
NOTICED_LATE: Final = 0.95
"""How many at all."""


class Connection:
    """One stream between a player and a process."""

    def __init__(self, player: Player, process: GameProcess, resume_after: int) -> None:
        self.player = player
        self.process = process
        self.match_id = player.match_id
        self.player_id = player.player_id
        self.resume_after = resume_after
        self.source: Room | Story | None = None
        self.task: asyncio.Task[None] | None = None
        """Serves it, in its process."""
        self.open = True
        self._world = process.world
        self._last_there = self._last_back = 0
        self._there(lambda: process.reach(lambda: process.serve(self)))

    def _there(self, what: Any) -> None:
        self._last_there = max(self._last_there, self._world.now + jitter(self.player.network, 8))
        self._world.at(self._last_there, what)

    def _back(self, what: Any) -> None:
        self._last_back = max(self._last_back, self._world.now + jitter(self.player.network, 8))
        self._world.at(self._last_back, lambda: what() if self.open else None)

    def send(self, heard: Heard) -> None:
        """The player says something."""
        process = self.process

        def reaches() -> None:
            if not process.alive:
                self.end()
                return
            if not self.open and self.player.network.random() < 0.5:
                return
            heard.reached_at, heard.true_mark, heard.stalls = (
                self._world.now,
                process.true_mark,
                process.stalls,
            )
            if process.paused:
                heard.true_mark = process.true_mark
            process.commands_heard.append(heard)
            process.reach(lambda: process.hear(self, heard))

        self._there(reaches)

    # Called in the process.

    def tell(self, response: pb.WatchResponse, story: Story) -> None:
        """News leave the process."""
        self.player.simulation.truth.told(self, response, story)
        state, sequence = story.state, story.sequence
        self._back(lambda: self.player.hear(response, state, sequence))

    def answer(self, heard: Heard, answer: Answer) -> None:
        """An answer leaves the process."""
        self.player.simulation.truth.answered(heard, answer)
        self._back(lambda: self.player.answered(heard, answer))

    def end(self) -> None:
        """The stream is over, and the player learns of it."""
        self._back(lambda: self.player.lost(self))

    def drop(self) -> None:
        """The player's end is gone. The process mostly hears of it, at once or only after a while."""
        self.open = False
        luck = self.player.network.random()
        if luck < NOTICED:
            self._there(lambda: self.process.reach(self._broken))
        elif luck < NOTICED_LATE:
            self._world.after(
                self.player.network.randrange(9 * SECOND), lambda: self.process.reach(self._broken)
            )

    def _broken(self) -> None:
        if self.task is not None and not self.task.done():
            self.process.watch.lose(self.match_id)
            self.task.cancel()


class Player:
    """One seat of one match, or both of one that is played on one device."""

    def __init__(
        self, simulation: Simulation, match_id: str, seats: tuple[Seat, ...], player_id: str
    ) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.match_id = match_id
        self.seats = seats
        self.player_id = player_id
        self.dice = Random(f"player {player_id} {self.world.seed}")
        self.network = Random(f"player network {player_id} {self.world.seed}")
        self.connection: Connection | None = None
        self.sequence = 0
        self.state: Match | None = None
        self.over = False
        self._decided: tuple[int, Seat] | None = None
        self._sent: Heard | None = None
        self._old: list[Heard] = []
        self._heard_at = self.world.now
        self.habits = simulation.habits
        self.world.after(self.network.randrange(SECOND), self.connect)
        self.world.after(SILENCE_NS, self._listen)

    # Connections.

    def connect(self) -> None:
        """Finds whoever plays the match and attaches."""
        if self.over or self.connection is not None:
            return
        process = self.simulation.owner_process(self.match_id)
        if process is None or not process.alive or self.world.now < self.simulation.ingress_shut_until:
            self.world.after(self.network.randrange(200, 800) * MILLISECOND, self.connect)
            return
        self.connection = Connection(self, process, self.sequence)
        self._heard_at = self.world.now

    def lost(self, connection: Connection) -> None:
        """The stream ended."""
        connection.drop()
        if connection is self.connection:
            self.connection = None
            self.world.after(self.network.randrange(50, 500) * MILLISECOND, self.connect)

    def drop(self) -> None:
        """The player loses the connection, or closes the window."""
        if self.connection is not None:
            self.lost(self.connection)

    def _listen(self) -> None:
        if self.over:
            return
        if self.connection is not None and self.world.now - self._heard_at > SILENCE_NS:
            self.drop()
        self.world.after(SECOND, self._listen)

    # News.

    def hear(self, response: pb.WatchResponse, state: Match, sequence: int) -> None:
        """News have arrived."""
        self._heard_at = self.world.now
        if response.HasField("heartbeat"):
            return
        self.sequence, self.state = sequence, state
        if state.outcome is not None:
            self.over = True
            return
        if response.HasField("reconnect"):
            return
        self._look(again=self._sent is not None)

    def _look(self, *, again: bool) -> None:
        state = self.state
        if state is None or self.over:
            return
        seat = self._asked(state)
        if again and self._sent is not None and self._sent.decision_id == state.decision_id:
            self._say(self._sent)  # the same request again, since no answer came
            return
        if seat is None or (state.decision_id, seat) == self._decided:
            return
        self._decided = (state.decision_id, seat)
        self._sent = None
        self._think(state, seat)

    def _asked(self, state: Match) -> Seat | None:
        """The seat of this player that is asked something."""
        if state.phase in (Phase.AWAITING_START, Phase.SETTLED):
            return next((seat for seat in self.seats if seat not in state.pressed), None)
        seat = state.to_act or state.awaiting_reveal
        return seat if seat in self.seats else None

    def _think(self, state: Match, seat: Seat) -> None:
        dice, habits = self.dice, self.habits
        if state.to_act is None:
            if state.awaiting_reveal is None and dice.random() < habits.absent:
                return
            wait = dice.randrange(20, 3000) * MILLISECOND
        else:
            budget = state.delay_ns + state.banks[seat] - state.consumed_ns
            luck = dice.random()
            if luck < habits.brink:
                wait = budget + dice.randrange(-150, 40) * MILLISECOND
            elif luck < habits.brink + habits.silent:
                wait = budget + 5 * SECOND
            elif luck < 0.3:
                wait = dice.randrange(max(1, min(budget, 2 * state.delay_ns)))
            else:
                wait = dice.randrange(20, 900) * MILLISECOND
        decision_id = state.decision_id
        self.world.after(max(wait, MILLISECOND), lambda: self._decide(decision_id, seat))

    def _decide(self, decision_id: int, seat: Seat) -> None:
        state = self.state
        if self.over or state is None or state.decision_id != decision_id or self._asked(state) is not seat:
            return
        dice, habits = self.dice, self.habits
        if dice.random() < habits.nonsense:
            self._nonsense(state, seat)
        choice = self._choose(state, seat)
        heard = self._command(choice, decision_id, legal=True)
        self._sent = heard
        self._say(heard)
        if dice.random() < habits.twice:
            self.world.count("sent twice")
            self.world.after(dice.randrange(30) * MILLISECOND, lambda: self._say(heard))
        if dice.random() < habits.drop:
            self.world.count("client dropped")
            self.world.after(dice.randrange(60) * MILLISECOND, self.drop)
        self._patience(heard)

    def _patience(self, heard: Heard) -> None:
        def again() -> None:
            if self._sent is heard and not self.over:
                self._say(heard)
                self._patience(heard)

        self.world.after(ANSWER_PATIENCE_NS, again)

    def _choose(self, state: Match, seat: Seat) -> Command:
        dice = self.dice
        allowed = legal(state)
        if state.to_act is not None and dice.random() < self.habits.resign:
            return Resign(seat)
        choices = [each for each in commands(state, allowed) if each.seat is seat]
        if allowed.bid is not None:
            choices += [Bid(seat, amount) for amount in list(bids(allowed.bid))[:3]]
        return dice.choice(choices)

    def _command(self, command: Command, decision_id: int, *, legal: bool) -> Heard:
        return Heard(
            self.match_id,
            command,
            str(self.world.new_id()),
            sha256(repr((command, decision_id)).encode()).digest(),
            decision_id,
            legal,
            timed=not isinstance(command, Start | Continue | Reveal | Resign),
        )

    def _nonsense(self, state: Match, seat: Seat) -> None:
        """Something that has no effect: not legal, not asked for any more, or said before."""
        luck = self.dice.random()
        self.world.count("nonsense sent")
        if luck < 0.4:
            tile = Tile.parse(f"{self.dice.randrange(4)}|{self.dice.randrange(4, 7)}")
            if state.to_act is not None and tile not in state.hands[seat]:
                self._say(self._command(Play(seat, tile), state.decision_id, legal=False))
            else:
                self._say(self._command(Start(seat), state.decision_id - 1, legal=False))
        elif luck < 0.7 or not self._old:
            self._say(self._command(Draw(seat), state.decision_id - 1, legal=False))
        else:
            self._say(self.dice.choice(self._old))

    def _say(self, heard: Heard) -> None:
        if self.connection is not None:
            # Each sending reaches a process at its own time.
            self.connection.send(replace(heard, fence=None))

    def answered(self, heard: Heard, answer: Answer) -> None:
        """An answer has arrived."""
        mine = self._sent is not None and self._sent.request_id == heard.request_id
        if isinstance(answer, Answered):
            self._old = [*self._old[-3:], heard]
            if mine:
                self._sent = None
                if len(self.seats) > 1:
                    self._look(again=False)  # the other seat may be asked the same
            return
        if not mine:
            return
        if answer.reason in ("TRY_AGAIN", "LIMIT_REACHED"):
            sent = self._sent

            def again() -> None:
                if sent is not None and self._sent is sent:
                    self._say(sent)

            self.world.after(500 * MILLISECOND, again)
            return
        self._sent = None
        # Refused: perhaps the question has changed, or an illegal idea; look at the table again.
        self._decided = None
        self.world.after(100 * MILLISECOND, lambda: self._look(again=False))
