"""The figures of docs/matchmaking.md are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from matchmaker import cooldown, estimate, pairing, ticket
from matchmaker.rating import PROVISIONAL_SIGMA

PAGE = Path(__file__).resolve().parents[2] / "docs" / "matchmaking.md"
MINUTE = 60 * ticket.SECOND
HOUR = 60 * MINUTE


def test_the_figures_of_the_page_are_those_of_the_code() -> None:
    section = PAGE.read_text("utf-8").partition("\n## The figures\n")[2].partition("\n## ")[0]
    said = dict(re.findall(r"^\| (.+) \| (\d+ .+) \|$", section, re.MULTILINE))
    assert said == {
        "window at the beginning": f"{ticket.WINDOW_START} points",
        "window, wider with each second": f"{ticket.WINDOW_PER_SECOND} points",
        "provisional against established, counted as further apart": f"{ticket.MIXED_POINTS} points",
        "recent opponents, counted as further apart": f"{ticket.REPEAT_POINTS} points",
        "provisional: uncertainty above": f"{PROVISIONAL_SIGMA:g} points",
        "one rating point, in waiting": f"{ticket.POINT // 1_000_000} ms",
        "matched exactly up to": f"{pairing.EXACT_MAX} seeks",
        "stretch of a larger crowd that is matched exactly": f"{pairing.STRETCH} seeks",
        "cooldown after the first no-show": f"{cooldown.FIRST // ticket.SECOND} s",
        "cooldown, longest": f"{cooldown.LONGEST // ticket.SECOND} s",
        "a no-show is forgiven after": f"{cooldown.FORGIVEN_AFTER // HOUR} h",
        "an estimate rests on waits of the last": f"{estimate.RECENT // MINUTE} min",
        "an estimate rests on at least": f"{estimate.BASIS_MIN} waits",
        "an estimate rests on at most": f"{estimate.BASIS_MAX} waits",
        "ratings that wait about equally long, apart at most": f"{estimate.SIMILAR_POINTS:g} points",
    }
