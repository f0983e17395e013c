"""One promise of the API and how to look whether it is kept; running many of them; what came of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import grpc

from client.errors import ClientError, from_rpc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from client.conformance.bench import Bench

SECONDS_MAX: Final = 90.0
"""How long one check may take: far more than any needs, so that a stack that says nothing is a failure and no riddle."""
AT_A_TIME: Final = 6
"""Checks that run side by side. Most of their time is waiting."""


class BrokenError(Exception):
    """The promise is not kept; the text says what happened instead."""


class NotHereError(Exception):
    """This stack cannot be asked: the text says why."""


class Verdict(StrEnum):
    """What came of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """A promise with a name."""

    topic: str
    name: str
    promise: str
    """One sentence: what a client may rely on."""
    run: Callable[[Bench], Awaitable[None]]
    """Raises BrokenError or NotHereError."""


@dataclass(frozen=True, slots=True)
class Result:
    """A check that was run."""

    check: Check
    verdict: Verdict
    reason: str
    """Why it failed or was skipped; empty when it passed."""
    seconds: float


def expect(condition: object, otherwise: str) -> None:
    """Raise BrokenError with `otherwise` unless the condition holds."""
    if not condition:
        raise BrokenError(otherwise)


def checks_of(topic: str, *functions: Callable[[Bench], Awaitable[None]]) -> tuple[Check, ...]:
    """Checks from functions: the name is the function's, the promise its docstring."""
    return tuple(
        Check(
            topic,
            function.__name__.strip("_").replace("_", "-"),
            " ".join((function.__doc__ or "").split()),
            function,
        )
        for function in functions
    )


async def run_checks(
    checks: Sequence[Check], bench: Bench, told: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Run checks side by side; their results in the order of the checks. `told` hears of each when it is there."""
    places = asyncio.Semaphore(AT_A_TIME)

    async def one(check: Check) -> Result:
        async with places:
            result = await _result(check, bench)
        told(result)
        return result

    return list(await asyncio.gather(*(one(check) for check in checks)))


async def _result(check: Check, bench: Bench) -> Result:
    verdict, reason = Verdict.PASSED, ""
    begun = time.monotonic()
    try:
        async with asyncio.timeout(SECONDS_MAX):
            await check.run(bench)
    except NotHereError as why:
        verdict, reason = Verdict.SKIPPED, str(why)
    except BrokenError as broken:
        verdict, reason = Verdict.FAILED, str(broken)
    except TimeoutError:
        verdict, reason = Verdict.FAILED, f"not done after {SECONDS_MAX:.0f} s"
    except ClientError as error:
        verdict, reason = Verdict.FAILED, f"a call that should succeed failed: {error}"
    except grpc.aio.AioRpcError as error:
        verdict, reason = Verdict.FAILED, f"a call that should succeed failed: {from_rpc(error)}"
    except ValueError as error:  # a message that makes no sense: a tile that is none, an enum nobody knows
        verdict, reason = Verdict.FAILED, f"an answer makes no sense: {error}"
    return Result(check, verdict, reason, time.monotonic() - begun)
