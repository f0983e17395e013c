"""What every service shows of itself: waits for the database, stalls of the loop, and a page of its own thread."""

from __future__ import annotations

import asyncio
import time
import urllib.request

from prometheus_client import CollectorRegistry

from services.common.metrics import TICK_SECONDS, LoopMetrics, PoolMetrics
from services.common.metricspage import MetricsPage
from services.storage.pool import open_pool
from tests.seats import eventually

POOL = "spectacular_bid_database_pool"


async def test_the_pool_is_shown_with_who_waits_for_it(database_url: str) -> None:
    """Waiting is from asking to having, whichever way a connection is asked for."""
    registry, loop = CollectorRegistry(), asyncio.get_running_loop()
    pool = await open_pool(database_url, name="test", size=1, wait_seconds=5)
    PoolMetrics(registry, pool)

    def connections() -> list[float | None]:
        states = ("busy", "idle")
        return [registry.get_sample_value(f"{POOL}_connections", {"state": state}) for state in states]

    def waits(part: str) -> float:
        value = registry.get_sample_value(f"{POOL}_wait_seconds_{part}")
        assert value is not None
        return value

    try:
        assert connections() == [0, 1]
        async with pool.acquire():
            assert connections() == [1, 0]
            asked_by = loop.time()
            waiting = asyncio.create_task(pool.fetchval("select 1"))
            await asyncio.sleep(0)
            assert waits("count") == 1
            let_wait = loop.time() - asked_by
        assert await waiting == 1
        assert waits("count") == 2
        assert waits("sum") >= let_wait
        assert connections() == [0, 1]
    finally:
        await pool.close()


async def test_a_loop_that_does_not_run_is_noticed() -> None:
    registry = CollectorRegistry()
    metrics = LoopMetrics(registry)
    watching = asyncio.create_task(metrics.run())
    await asyncio.sleep(0)
    blocked = 0.1
    time.sleep(blocked)  # noqa: ASYNC251 - that it blocks is what is looked at

    def shown(part: str) -> float:
        return registry.get_sample_value(f"spectacular_bid_loop_stall_seconds_{part}") or 0.0

    async def noticed() -> bool:
        return shown("count") > 0

    await eventually(noticed)
    watching.cancel()
    # When it went to sleep is not known: at most a tick before it was due.
    assert shown("sum") >= blocked - TICK_SECONDS


async def test_the_page_is_answered_while_the_loop_is_busy() -> None:
    """It has a thread of its own: whoever looks on gets an answer, and costs no player a turn of the loop."""
    page = MetricsPage("127.0.0.1:0", CollectorRegistry())
    try:
        # Nothing else runs on the loop until the answer is here.
        with urllib.request.urlopen(f"http://{page.address}/metrics", timeout=10) as answer:  # noqa: ASYNC210
            assert answer.status == 200
    finally:
        page.close()
