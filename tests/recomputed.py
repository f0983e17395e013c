"""A record's balances and banks, worked out from its lines with nothing but JSON and arithmetic: the engine is not asked."""

from __future__ import annotations

import json
from typing import Any

OTHER = {"north": "south", "south": "north"}


class Recomputed:
    """What a record comes to. `balances` in points, `banks_ns` left, by seat; `winner` if the play itself names one."""

    def __init__(self, text: str) -> None:
        head, *lines = (json.loads(line) for line in text.splitlines())
        self.balances: dict[str, int] = dict(head["balances"])
        banks = head.get("banks_ns") or {seat: ms * 10**6 for seat, ms in head["banks_ms"].items()}
        self.banks_ns: dict[str, int] = dict(banks)
        self.winner: str | None = None
        self._delay = head.get("delay_ns", head.get("delay_ms", 10_000) * 10**6)
        self._since = self._used = self._passes = self._bid = 0
        opening = head["opening"]
        self._jockey: str | None = None if opening == "ranked" else opening["auction"]["jockey"]
        self._to_act = self._bidder = ""
        self._hands: dict[str, list[str]] = {}
        self._boneyard: list[str] = []
        self._ends: dict[str, tuple[int, int]] = {}
        self._filled: dict[str, set[str]] = {}
        self._spinner = ""
        for line in lines:
            self._take(line)

    def _take(self, line: dict[str, Any]) -> None:
        at = line.get("at_ns", line.get("at_ms", 0) * 10**6)
        if line["type"] == "deal":
            self._deal(line)
        elif line["type"] == "clock":
            self.banks_ns[self._to_act] = 0
            self.winner = OTHER[self._to_act]
        elif line["command"] == "resign":
            self.winner = OTHER[line["seat"]]
        else:
            if line["command"] in ("start", "continue", "reveal"):
                self._used = 0
            else:
                used = max(0, self._used - line.get("credit_ns", 0)) + at - self._since
                drawn = line["command"] == "draw"
                self._used = used if drawn else 0
                if not drawn:
                    self.banks_ns[line["seat"]] -= max(0, used - self._delay)
                self._do(line["seat"], line)
            self._since = at

    def _pay(self, payer: str, due: int) -> None:
        moved = min(due, self.balances[payer])
        self.balances[payer] -= moved
        self.balances[OTHER[payer]] += moved
        if self.balances[payer] == 0:
            self.winner = OTHER[payer]

    def _deal(self, line: dict[str, Any]) -> None:
        self._hands = {seat: list(line[seat]) for seat in OTHER}
        self._boneyard = list(line["boneyard"])
        self._ends, self._filled, self._spinner = {}, {}, ""
        self._bid, self._bidder, self._passes = 0, "", 0
        if self._jockey is not None:
            self._to_act = OTHER[self._jockey]
            return

        def rank(tile: str) -> tuple[bool, int, int]:
            low, high = int(tile[0]), int(tile[2])
            return low == high, low + high, high

        best = {seat: max(map(rank, hand)) for seat, hand in self._hands.items()}
        self._to_act = max(best, key=lambda seat: best[seat])

    def _do(self, seat: str, line: dict[str, Any]) -> None:
        self._to_act = OTHER[seat]
        match line["command"]:
            case "bid":
                self._bid, self._bidder = line["amount"], seat
            case "accept":
                self._to_act = self._bidder
                self._pay(self._bidder, self._bid - (15 if self._bidder == self._jockey else 0))
            case "draw":
                self._to_act = seat
                self._hands[seat].append(self._boneyard.pop(0))
            case "pass":
                self._pass()
            case "play":
                self._play(seat, line)

    def _pass(self) -> None:
        self._passes += 1
        if self._passes == 2:
            pips = {each: sum(int(t[0]) + int(t[2]) for t in hand) for each, hand in self._hands.items()}
            loser = max(pips, key=lambda each: pips[each])
            if pips["north"] != pips["south"]:
                self._pay(loser, 5 * ((pips[loser] + 2) // 5))
            self._jockey = None

    def _play(self, seat: str, line: dict[str, Any]) -> None:
        tile = line["tile"]
        low, high = int(tile[0]), int(tile[2])
        self._hands[seat].remove(tile)
        self._passes = 0
        value = None
        if "end" in line:
            value, _ = self._ends.pop(line["end"])
        if low != high:
            left = [("low", low), ("high", high)]
            if value is not None:
                left.remove(("low", low) if value == low else ("high", high))
            self._ends.update({f"{tile} {port}": (pips, pips) for port, pips in left})
        else:
            # Both halves count, but once, until no line of the double is free.
            self._ends[f"{tile} line_b"] = (low, 2 * low)
            if value is None:
                self._ends[f"{tile} line_a"] = (low, 0)
            self._spinner = self._spinner or tile
        at, _, port = line.get("end", "").partition(" ")
        lines = [f"{at} {each}" for each in ("line_a", "line_b")]
        if at and at == self._spinner and port in ("line_a", "line_b"):
            free = [end for end in lines if end in self._ends]
            for end in free:
                self._ends[end] = (int(at[0]), 2 * int(at[0]))
            if not free:
                self._ends.update({f"{at} {branch}": (int(at[0]), 0) for branch in ("branch_a", "branch_b")})
        count = sum(counts for _, counts in self._ends.values())
        if count % 5 == 0:
            self._pay(OTHER[seat], count)
        if not self._hands[seat] and self.winner is None:
            self._jockey = seat
