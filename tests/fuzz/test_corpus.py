"""What fuzzing found and what it begins with, run again; and the same targets with what hypothesis makes of it.

Needs no fuzzer: `make fuzz` goes on from here, guided by coverage.
"""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import CORPUS

EXAMPLES = 40
SLOW = ("record", "study", "play", "clock", "settings")
"""Targets that take milliseconds an input: a third as many."""
BYTES_MAX = 1_000_000
"""Of the corpus in the repository."""


@cache
def corpus(name: str) -> tuple[bytes, ...]:
    return tuple(file.read_bytes() for file in sorted((CORPUS / name).iterdir()))


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_of_the_corpus_finds_anything(name: str) -> None:
    for file in sorted((CORPUS / name).iterdir()):
        try:
            TARGETS[name].run(file.read_bytes())
        except Exception as error:
            raise AssertionError(f"{file.relative_to(CORPUS)}: {error!r}") from error


@pytest.mark.parametrize("name", TARGETS)
def test_no_mutation_of_it_finds_anything(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=EXAMPLES // 3 if name in SLOW else EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(corpus(name)), st.integers(0, 2**32 - 1), st.integers(1, 4))
    def mutated(data: bytes, seed: int, times: int) -> None:
        rng = random.Random(seed)
        for _ in range(times):
            data = target.mutate(data, rng)[: target.size_max]
        target.run(data)

    mutated()


@pytest.mark.parametrize("name", ["words", "name", "redact", "token", "jwks", "settings", "record", "event"])
def test_no_bytes_at_all_find_anything(name: str) -> None:
    examples = EXAMPLES // 3 if name in SLOW else EXAMPLES

    @settings(max_examples=examples, derandomize=True, database=None, deadline=None)
    @given(
        st.one_of(
            st.binary(max_size=200),
            st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
        )
    )
    def anything(data: bytes) -> None:
        TARGETS[name].run(data)

    anything()


def test_the_corpus_is_small_and_has_every_target() -> None:
    """It is cloned by everybody."""
    assert {folder.name for folder in CORPUS.iterdir()} == set(TARGETS)
    assert sum(file.stat().st_size for file in CORPUS.rglob("*") if file.is_file()) < BYTES_MAX
