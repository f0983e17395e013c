"""What is done to a world: decided by the seed, counted, and over well before the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from engine.clock import MILLISECOND, SECOND
from tests.simulation.clockwatch import deadline_of
from tests.simulation.declared import declare
from tests.simulation.game import ClockProcess, GameProcess
from tests.simulation.simulation import CLOCKS, ENGINES, Simulation
from tests.simulation.world import EPOCH

if TYPE_CHECKING:
    from tests.simulation.process import Process

FIRST_NS: Final = 400 * MILLISECOND
KINDS: Final = (
    *("stall", "stop", "throttle", "stop", "stall"),
    *("crash_game", "crash_game", "crash_clock", "drain_game", "drain_clock"),
    *("cut", "cut", "silence", "silence", "slow_line", "other_clock"),
    *("db_down", "db_flaky", "db_flaky", "db_slow", "db_flaky"),
    *("both_gone", "clock_stop", "zombie", "stop_on_event", "crash_on_event", "crash_on_event"),
    *("wake_and_die", "ingress", "ingress", "declare", "stall_at_deadline", "crash_at_timeout"),
)
SEVERE: Final = ("long_stop", "db_gone", "db_steps", "kernel_wrong", "all_gone", "ingress_gone")
"""What may rightly cost a match."""
SEVERE_SHARE: Final = 0.12
"""How many of the worlds have some of those."""
TROUBLE_NS: Final = 35 * SECOND
SEVERE_NS: Final = 150 * SECOND
"""How long a fault, or a severe one, takes with everything that comes of it."""
QUIET_SHARE: Final = 0.05
"""How many have no faults at all: there, stamps are checked in both directions."""


class FaultySimulation(Simulation):
    """A simulation with things going wrong."""

    def plan(self) -> None:
        """Some faults at some times, often close to each other."""
        luck = self.luck = self.world.dice("faults")
        kind = luck.random()
        if kind < QUIET_SHARE:
            return
        self.truth.faultless = False
        severe = kind > 1 - SEVERE_SHARE
        self.truth.severe = severe
        at, faults = EPOCH + FIRST_NS, luck.choice((1, 2, 3, 5, 8, 12))
        kinds = luck.sample(KINDS, min(len(KINDS), luck.randrange(1, 6)))
        for _ in range(faults):
            at += luck.choice(
                (luck.randrange(200 * MILLISECOND), luck.randrange(4 * SECOND), luck.randrange(12 * SECOND))
            )
            self._schedule(at, luck.choice(kinds))
        if severe:
            self._schedule(EPOCH + SECOND + luck.randrange(8 * SECOND), luck.choice(SEVERE))

    def _schedule(self, at: int, kind: str) -> None:
        def strike() -> None:
            if self._over():
                return
            self.world.count(f"fault {kind}")
            self.world.note(f"fault {kind}")
            self._trouble(SEVERE_NS if kind in SEVERE else TROUBLE_NS)
            getattr(self, f"_{kind}")()

        self.world.at(at, strike)

    def _trouble(self, ns: int) -> None:
        verdicts = self.truth.verdicts
        verdicts.calm_from = max(verdicts.calm_from, self.world.now + ns)

    def _length(self, most_ms: int) -> int:
        """Mostly short, sometimes long, never close to the threshold of a gap, where truth and stamps may differ."""
        luck = self.luck
        length = luck.choice((luck.randrange(1, 40), luck.randrange(70, 500), luck.randrange(70, most_ms)))
        return length * MILLISECOND + luck.randrange(MILLISECOND)

    def _game(self) -> GameProcess:
        return self.games[self.luck.choice(ENGINES)]

    # The host.

    def _stall(self) -> None:
        self._game().pause(self._length(3000), busy=True)

    def _stop(self) -> None:
        self._game().pause(self._length(5000), busy=False)

    def _clock_stop(self) -> None:
        self.clocks[self.luck.choice(CLOCKS)].pause(self._length(3000), busy=False)

    def _throttle(self) -> None:
        game = self._game()
        for number in range(self.luck.randrange(5, 40)):
            self.world.after(number * 100 * MILLISECOND, lambda: game.pause(40 * MILLISECOND, busy=False))

    def _zombie(self) -> None:
        """Paused past its lease, so that others go on; then it wakes."""
        self._game().pause(self.luck.randrange(9_000, 14_000) * MILLISECOND, busy=self.luck.random() < 0.5)

    def _wake_and_die(self) -> None:
        """It comes back from a pause, and is gone before it has said much."""
        game, length = self._game(), self._length(self.luck.choice((600, 8000)))
        game.pause(length, busy=self.luck.random() < 0.5)
        wait = self.luck.choice((1, 5, 300)) * MILLISECOND

        def die() -> None:
            game.kill()
            self._later(100, 14_000, lambda: self._restart(game.engine_id))

        self.world.after(length + wait, die)

    def _stall_at_deadline(self) -> None:
        """Busy in the moments before and after a deadline, with the probe and the last commands waiting."""
        luck, left = self.luck, 6

        def stall() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self.steps["opened"].remove(stall)
            record, length = self.truth.openings.last, self._length(1500)
            assert record is not None, "one was opened just now"
            ends_at = record.at + deadline_of(record.opened, record.consumed_ns) - record.opened.start_ns
            begins_at = ends_at - luck.randrange(400) * MILLISECOND
            self._trouble(begins_at - self.world.now + TROUBLE_NS)
            self.world.at(begins_at, lambda: record.process.pause(length, busy=luck.random() < 0.5))

        self.steps["opened"].append(stall)

    # Processes that end.

    def _later(self, least_ms: int, most_ms: int, what: Callable[[], None]) -> None:
        self.world.after(self.luck.randrange(least_ms, most_ms) * MILLISECOND, what)

    def _crash_game(self) -> None:
        engine = self.luck.choice(ENGINES)
        self.games[engine].kill()
        self._later(100, self.luck.choice((1500, 14_000)), lambda: self._restart(engine))

    def _restart(self, engine: str) -> None:
        if not self.games[engine].alive:
            self.start_game(engine)

    def _drain_game(self) -> None:
        engine = self.luck.choice(ENGINES)
        game = self.games[engine]
        game.terminate()
        self._later(6000, 9000, lambda: self._end_and_restart(engine, game))

    def _end_and_restart(self, engine: str, game: GameProcess) -> None:
        if self.games[engine] is game:
            game.kill()
            self.start_game(engine)

    def _crash_clock(self) -> None:
        address = self.network.route[self.luck.choice(ENGINES)]
        self.clocks[address].kill()
        if self.luck.random() < 0.5:
            self._point_elsewhere()
        self._later(50, self.luck.choice((600, 6000)), lambda: self._restart_clock(address))

    def _restart_clock(self, address: str) -> None:
        if not self.clocks[address].alive:
            self.start_clock(address)

    def _drain_clock(self) -> None:
        address = self.network.route[self.luck.choice(ENGINES)]
        self._point_elsewhere()
        self.clocks[address].drain()
        self._later(2500, 4000, lambda: self._restart_clock(address))

    def _both_gone(self) -> None:
        """A game process and its clock at once: nobody remembers."""
        engine = self.luck.choice(ENGINES)
        address = self.network.route[engine]
        self.games[engine].kill()
        self.clocks[address].kill()
        self._later(50, 2000, lambda: self._restart_clock(address))
        self._later(100, 9000, lambda: self._restart(engine))

    def _on_event(self, what: Callable[[], None]) -> None:
        """At one of the steps of a command: read, said to the clock and judged, stored, opened and told."""
        waits = self.luck.choice(("read", "stored", "said", "opened", "lost"))
        steps = 1 if waits == "lost" else self.luck.randrange(1, 40)
        self.world.count(f"at step {waits}")

        def step() -> None:
            nonlocal steps
            steps -= 1
            if steps == 0:
                self.steps[waits].remove(step)
                self._trouble(TROUBLE_NS)
                what()

        self.steps[waits].append(step)

    def _crash_on_event(self) -> None:
        luck = self.luck
        restart, wait = luck.choice((1500, 14_000)), luck.choice((-1, 0, luck.randrange(3 * MILLISECOND)))
        victim: Process = self._game()
        if luck.random() < 0.3:
            victim = self.clocks[luck.choice(CLOCKS)]

        def crash() -> None:
            if not victim.alive:
                return
            if isinstance(victim, ClockProcess):
                self._later(50, restart, lambda: self._restart_clock(victim.name))
            else:
                engine = victim.name.split(".")[0]
                self._later(100, restart, lambda: self._restart(engine))
            if wait >= 0:
                self.world.after(wait, victim.kill)
            elif victim._running:
                victim.die("in the middle of a step")
            else:
                victim.kill()

        self._on_event(crash)

    def _crash_at_timeout(self) -> None:
        """A clock has proven that a decision is lost; whoever should store that dies."""
        wait, restart = (
            self.luck.choice((0, self.luck.randrange(3 * MILLISECOND))),
            self.luck.choice((1500, 14_000)),
        )

        def crash() -> None:
            self.steps["lost"].remove(crash)
            self._trouble(TROUBLE_NS)
            for engine in ENGINES:
                self.world.after(wait, self.games[engine].kill)
                self._later(100, restart, lambda engine=engine: self._restart(engine))  # type: ignore[misc]

        self.steps["lost"].append(crash)

    def _stop_on_event(self) -> None:
        length, game = self._length(12_000), self._game()
        self._on_event(lambda: self._after_this(lambda: game.pause(length, busy=True)))

    def _after_this(self, what: Callable[[], None]) -> None:
        self.world.after(self.luck.choice((0, 0, self.luck.randrange(3 * MILLISECOND))), what)

    # The network.

    def _cut(self) -> None:
        call = self.network.calls.get(self.luck.choice(ENGINES))
        if call is not None:
            call.break_(self.luck.randrange(900 * MILLISECOND))

    def _silence(self) -> None:
        engine = self.luck.choice(ENGINES)
        line = self.network.line(engine, self.network.route[engine])
        line.silent_until = self.world.now + self._length(9000)
        if self.luck.random() < 0.3:
            self._point_elsewhere()

    def _slow_line(self) -> None:
        engine = self.luck.choice(ENGINES)
        line = self.network.line(engine, self.network.route[engine])
        line.slow_ms = self.luck.choice((2, 10, 60))
        self._later(500, 6000, lambda: setattr(line, "slow_ms", 0.3))

    def _point_elsewhere(self) -> None:
        for engine in ENGINES:
            if self.luck.random() < 0.8:
                self.network.route[engine] = CLOCKS[1 - CLOCKS.index(self.network.route[engine])]

    def _other_clock(self) -> None:
        """The name of the clock means the other one now; sessions go on until they break."""
        self._point_elsewhere()
        if self.luck.random() < 0.7:
            self._cut()

    # The way of the players to the game.

    def _ingress(self) -> None:
        self._shut_ingress(self.luck.choice((self._length(900), self._length(6000))))

    def _ingress_gone(self) -> None:
        self._shut_ingress(self.luck.randrange(5, 60) * SECOND)

    def _shut_ingress(self, ns: int) -> None:
        """What the players come through is gone: most of them, or all, lose their streams."""
        self.ingress_shut_until = self.world.now + ns
        share = self.luck.choice((0.7, 1.0))
        for player in self.players:
            if self.luck.random() < share:
                self.world.after(self.luck.randrange(400) * MILLISECOND, player.drop)

    # Operators.

    def _declare(self) -> None:
        incident_id = str(self.world.new_id())
        declare(self.database, self.luck, incident_id, ENGINES)

    # The database.

    def _db_down(self) -> None:
        self._db_away(self._length(5000))

    def _db_away(self, ns: int) -> None:
        self.database.stop()
        self.world.after(ns, lambda: setattr(self.database.trouble, "down", False))

    def _db_flaky(self) -> None:
        trouble, luck = self.database.trouble, self.luck
        share = luck.choice((0.1, 0.3, 0.6))
        trouble.lost, trouble.unheard, trouble.late = share * luck.random(), share * luck.random(), share / 3

        def well() -> None:
            trouble.lost = trouble.unheard = trouble.late = 0.0

        self._later(300, 5000, well)

    def _db_slow(self) -> None:
        trouble = self.database.trouble
        trouble.slow_ms = self.luck.choice((5, 50, 400))
        self._later(300, 5000, lambda: setattr(trouble, "slow_ms", 0.5))

    # What may cost a match.

    def _long_stop(self) -> None:
        for game in self.games.values():
            game.pause(self.luck.randrange(20, 75) * SECOND, busy=False)

    def _db_gone(self) -> None:
        self._db_away(self.luck.randrange(10, 90) * SECOND)

    def _db_steps(self) -> None:
        self.database.wall_step_ns += self.luck.choice((-3600, -5, 5, 3600)) * SECOND

    def _all_gone(self) -> None:
        for engine in ENGINES:
            self.games[engine].kill()
            self._later(5_000, 100_000, lambda engine=engine: self._restart(engine))  # type: ignore[misc]
        if self.luck.random() < 0.5:
            for address in CLOCKS:
                self.clocks[address].kill()
                self._later(100, 5000, lambda address=address: self._restart_clock(address))  # type: ignore[misc]

    def _kernel_wrong(self) -> None:
        """The kernel clock of a game process is broken: it leaps, runs fast, or stands still."""
        game, luck = self._game(), self.luck
        match luck.randrange(4):
            case 0:
                game.jump(-luck.randrange(1, 5000) * MILLISECOND)
            case 3:
                game.jump(luck.randrange(100, 9000) * MILLISECOND)
            case 1:
                game.change_kernel(lambda: game.kernel.run_at(luck.choice((-50_000, 50_000))))
                self._later(1000, 9000, lambda: game.change_kernel(lambda: game.kernel.run_at(0)))
            case _:
                game.change_kernel(game.kernel.freeze)
                self._later(500, 9000, lambda: game.change_kernel(game.kernel.thaw))
