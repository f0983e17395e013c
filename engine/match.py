"""A match: commands in, events or a refusal out.

`decide` looks and never changes, `evolve` changes and never refuses, `replay` is a fold, `legal` lists what would
be accepted. The parts live in modules of their own; this is the one to import from.
"""

from engine.auction import BidRange
from engine.evolution import evolve, replay
from engine.legal import Legal, legal
from engine.opening import RANKED, Auctioned, Opening, Ranked
from engine.outcome import Cause, Outcome
from engine.ruling import Ruling, cancel, deal_round, decide, draw_round, expire, timed, void
from engine.state import DecisionKind, Match, Mode, Phase

__all__ = [
    "RANKED",
    "Auctioned",
    "BidRange",
    "Cause",
    "DecisionKind",
    "Legal",
    "Match",
    "Mode",
    "Opening",
    "Outcome",
    "Phase",
    "Ranked",
    "Ruling",
    "cancel",
    "deal_round",
    "decide",
    "draw_round",
    "evolve",
    "expire",
    "legal",
    "replay",
    "timed",
    "void",
]
