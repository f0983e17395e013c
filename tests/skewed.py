"""`python -m tests.skewed PERCENT`: a game process whose kernel clock runs at so many per cent of the true rate.

Everything else is the service. A clock that is set wrong from outside, in a time namespace, cannot be changed while a
process runs; so the process is handed another one.
"""

from __future__ import annotations

import sys

from services.common import logs
from services.common.host import run_service
from services.common.settings import load
from services.game.__main__ import serve
from services.game.livetime import LiveTime, kernel_now, new_event_loop
from services.game.settings import GameSettings


def main(percent: int) -> None:
    """Starts it from the environment, as the service does."""
    began = kernel_now()
    livetime = LiveTime(read=lambda: began + (kernel_now() - began) * percent // 100)

    async def run() -> None:
        settings = load(GameSettings)
        logs.configure(settings.log_level)
        await serve(settings, livetime)

    run_service(run, loop_factory=lambda: new_event_loop(livetime))


if __name__ == "__main__":
    main(int(sys.argv[1]))
