"""One simulated run: processes, players, what is done to them, and what must hold."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

import structlog

from engine.clock import MILLISECOND, SECOND
from tests.simulation.database import Database
from tests.simulation.game import ClockProcess, GameProcess, Parts, bad_kernel
from tests.simulation.matches import MATCHES, new_match, seats_of
from tests.simulation.network import Network
from tests.simulation.patches import Stage, patched
from tests.simulation.player import Player
from tests.simulation.truth import Truth
from tests.simulation.world import EPOCH, World

ENGINES: Final = ("game-a", "game-b")
CLOCKS: Final = ("clock-a", "clock-b")
WALL_STEPS_NS: Final = 60 * SECOND
HORIZON_NS: Final = 900 * SECOND
"""By then everything must be over."""


@dataclass(frozen=True)
class Habits:
    """How players are: chances for each decision."""

    brink: float = 0.04
    """Acting in the last moment."""
    silent: float = 0.002
    nonsense: float = 0.05
    twice: float = 0.1
    drop: float = 0.01
    resign: float = 0.003
    absent: float = 0.005
    """Not pressing Start or Continue."""


CROWDED: Final = Habits(brink=0.1)
"""Where several matches are played, they are over sooner."""


@dataclass
class Switches:
    """What is taken away from a world; everything else is as it is in production."""

    parts: Parts = field(default_factory=Parts)
    fences: bool = True
    patches: Mapping[Any, Mapping[str, Any]] = field(default_factory=dict)
    """Names of modules to be replaced."""


class Simulation:
    """A world with its people."""

    def __init__(
        self,
        seed: int,
        *,
        switches: Switches | None = None,
        watched: bool = False,
        wall_steps: bool = True,
    ) -> None:
        self.world = World(seed)
        self.world.watched = watched
        self.switches = switches or Switches()
        self.habits = Habits()
        self.database = Database(self.world, fences=self.switches.fences)
        self.network = Network(self.world)
        self.truth = Truth(self.world, self.database)
        self.dice = self.world.dice("simulation")
        self.games: dict[str, GameProcess] = {}
        self.clocks: dict[str, ClockProcess] = {}
        self.players: list[Player] = []
        self.match_ids: list[str] = []
        self.ingress_shut_until = 0
        """Until then no player reaches any process."""
        self.wall_steps = wall_steps
        self._host_step = timedelta()
        self._alone = True
        self._dead: list[Any] = []
        self.steps: dict[str, list[Callable[[], None]]] = {
            "read": self.truth.on_read,
            "stored": self.database.on_commit,
            "said": self.truth.verdicts.on_said,
            "lost": self.truth.verdicts.on_timeout,
            "opened": self.truth.on_opened,
        }
        """Who wants to know of each step of a command."""

    # Processes.

    def start_game(self, engine_id: str) -> None:
        """A new incarnation."""
        old = self.games.get(engine_id)
        if old is not None:
            old.kill()
            self._dead.append(old)
        game = self.make_game(
            self.world,
            engine_id,
            bad_kernel(self.world, self.dice),
            self.database,
            self.truth,
            self.switches.parts,
        )
        self.games[engine_id] = game
        game.on_failure = lambda: self.world.after(2 * SECOND, lambda: self._supervise(game))
        game.start(game.main)

    def make_game(self, *given: Any) -> GameProcess:
        """What a game process is in this world."""
        return GameProcess(*given)

    def _supervise(self, game: GameProcess) -> None:
        if self.games[game.engine_id] is game:
            self.start_game(game.engine_id)

    def start_clock(self, address: str) -> None:
        """A new clock at this address."""
        old = self.clocks.get(address)
        if old is not None:
            old.kill()
            self._dead.append(old)
        clock = ClockProcess(self.world, address, self.switches.parts, self.truth.verdicts.said)
        self.clocks[address] = clock
        self.network.clocks[address] = clock

    def owner_process(self, match_id: str) -> GameProcess | None:
        """Where a player finds the match, mostly."""
        owner = self.database.tables.owner[match_id]
        engine = owner["engine_id"]
        if self.dice.random() < 0.02:
            engine = self.dice.choice(ENGINES)
        return self.games.get(engine)

    def _create_match(self, number: int) -> None:
        dice = self.dice
        match_id = str(self.world.new_id())
        row = new_match(dice, match_id, number, self.database.wall(), alone=self._alone)
        engine = dice.choice(ENGINES)
        tables = self.database.tables
        tables.match[match_id] = row
        tables.owner[match_id] = {
            "engine_id": engine,
            "fence": 1,
            "released_at": None,
            "handed_over_at": None,
        }
        self.match_ids.append(match_id)
        game = self.games[engine]
        game.reach(lambda: game.place(match_id))
        for player_id, seats in seats_of(row):
            self.players.append(Player(self, match_id, seats, player_id))

    # The run.

    def run(self) -> World:
        """Everything, from beginning to end."""
        matches = self.dice.choice(MATCHES)
        self._alone = matches == 1
        if not self._alone:
            self.habits = CROWDED
        stage = Stage(self.world)
        stage.log = self._log
        stage.dial = self._dial
        gc.disable()
        try:
            with patched(stage, self.host_wall, self.switches.patches):
                for address in CLOCKS:
                    self.start_clock(address)
                for engine in ENGINES:
                    self.network.route[engine] = CLOCKS[0]
                    self.start_game(engine)
                for number in range(matches):
                    self.world.after(300 * MILLISECOND, lambda number=number: self._create_match(number))  # type: ignore[misc]
                self.plan()
                self._step_walls()
                self.world.run(EPOCH + HORIZON_NS, self._over)
                self.truth.finish(self.match_ids)
                for process in (*self.games.values(), *self.clocks.values(), *self._dead):
                    process.dispose()
        finally:
            gc.enable()
        return self.world

    def host_wall(self) -> datetime:
        """The wall clock of the hosts of all processes."""
        return self.database.wall() + self._host_step

    def _step_walls(self) -> None:
        """I22: somebody sets the wall clocks again and again, and nothing comes of it."""
        if self.wall_steps:
            dice = self.world.dice("walls")
            for at in range(0, WALL_STEPS_NS, WALL_STEPS_NS // 40):
                step = timedelta(seconds=dice.choice((-86_400, -3600, -5, -0.1, 0.1, 5, 3600, 86_400)))
                self.world.at(EPOCH + at + dice.randrange(SECOND), lambda step=step: self._step_wall(step))  # type: ignore[misc]

    def _step_wall(self, step: timedelta) -> None:
        self._host_step += step

    def plan(self) -> None:
        """What is done to the world."""

    def _over(self) -> bool:
        return (
            len(self.database.tables.outcome) == len(self.match_ids) > 0
            and all(player.over for player in self.players)
        ) or bool(self.world.violations)

    def _dial(self) -> Any:
        running = next(game for game in self.games.values() if game._running)
        return self.network.call(running, running.engine_id)

    def _log(self, _logger: Any, level: str, event: dict[str, Any]) -> Any:
        if event.get("event") == "room_held":
            error = event.get("exc_info")
            self.world.violate("held", f"a room failed: {error!r}")
        if event.get("event") == "fenced" and "now" not in event:
            owner = self.database.tables.owner[event["match_id"]]
            if owner["fence"] == event["fence"]:
                self.world.violate("R19", f"fence {event['fence']} let go of a match that is still its own")
        if self.world.watched:
            text = " ".join(f"{key}={value}" for key, value in event.items() if key != "event")
            if event.get("exc_info"):
                text += "\n" + traceback.format_exc()
            self.world.note(f"{event.get('event')} {text}")
        self.world.count(f"log {event.get('event')}")
        raise structlog.DropEvent


def chance(dice: Random, of: float) -> bool:
    """Whether it happens."""
    return dice.random() < of
