"""The tables of docs/clients.md are those of the rules, of the protos and of the conformance checks."""

from __future__ import annotations

import re

from client.conformance.catalogue import catalogue
from client.conformance.refusals import UNREACHABLE
from engine.refusal import Refusal
from spectacularbid.common.v1 import error_pb2
from tests.test_docs import name, table, text

PAGE = "docs/clients.md"


def test_every_refusal_has_something_to_do_in_order() -> None:
    rows = table(PAGE, "Refusals and what to do")
    assert [name(reason) for reason, _, _ in rows] == [refusal.value for refusal in Refusal]
    assert {met for _, met, _ in rows} == {"bug", "overtaken", "never"}
    assert all(what for _, _, what in rows)


def test_what_is_never_met_cannot_be_provoked() -> None:
    never = {name(reason) for reason, met, _ in table(PAGE, "Refusals and what to do") if met == "never"}
    assert never < {refusal.value for refusal in UNREACHABLE}


def test_every_error_reason_has_something_to_do_in_order() -> None:
    said = [f"ERROR_REASON_{name(reason)}" for reason, what in table(PAGE, "Errors and what to do") if what]
    assert said == error_pb2.ErrorReason.keys()[1:]


def test_the_conformance_table_is_that_of_a_run_in_which_everything_passed() -> None:
    block = text(PAGE).rpartition("```\n")[0].rpartition("```\n")[2]
    topic, found = "", []
    for line in block.splitlines():
        if line.endswith(":"):
            topic = line.removesuffix(":")
        elif (row := re.fullmatch(r"  passed   ([a-z0-9-]+) +[\d.]+ s", line)) is not None:
            found.append((topic, row.group(1)))
    assert found == [(check.topic, check.name) for check in catalogue()]
    assert block.splitlines()[-1] == f"{len(found)} passed, 0 failed, 0 skipped"
