"""What docs/ladder.md says is what the code does."""

from __future__ import annotations

from typing import get_args

import pytest

from matchmaker import rating
from matchmaker.ladder import Action, NonsenseError, Reason, Treatment, rule
from services.storage import holds
from tests.test_docs import LADDER, name, table, text


def test_the_reasons_of_decisions_are_those_of_the_code() -> None:
    rows = table(LADDER, "Decisions")
    assert [name(reason) for reason, _, _ in rows] == list(get_args(Reason))
    assert [reason for reason, rated, _ in rows if rated == "yes"] == ["`rated`"]


def test_the_figures_of_the_ladder_are_those_of_the_code() -> None:
    said = {row[0]: row[1] for row in table(LADDER, "The figures")}
    assert said == {
        "model": rating.MODEL_VERSION,
        "mean of a new player": f"{rating.MU:g}",
        "uncertainty of a new player": f"{rating.SIGMA:g}",
        "luck and form in a single match (beta)": f"{rating.BETA:g}",
        "uncertainty that each match adds (tau)": f"{rating.TAU:g}",
        "shown rating": f"mean - {rating.SHOWN_SIGMAS:g} × uncertainty",
        "provisional above": f"{rating.PROVISIONAL_SIGMA:g}",
        "a result by time is held for so long after players were lost together": f"{holds.AFTER_SECONDS} s",
    }
    prose = " ".join(text(LADDER).split())
    assert f"A new player has {rating.MU:g} ± {rating.SIGMA:g}" in prose
    assert f"A new player is shown {rating.NEW.shown}" in prose


@pytest.mark.parametrize("treatment", Treatment)
def test_the_table_of_rulings_is_that_of_the_code(treatment: Treatment) -> None:
    rows = {row[0]: row[1:] for row in table(LADDER, "For operators")}
    found = []
    for action in (Action.HOLD, Action.RELEASE, Action.REVERSE):
        try:
            found.append(rule(treatment, action).value)
        except NonsenseError:
            found.append("refused")
    assert rows[treatment.value] == found
