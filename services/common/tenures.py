"""Streams last as long as the token they were opened with counts, and no longer.

A call is let in once; a stream may then run for hours. So each running stream keeps its identity here, and all of them
are looked at every second: one whose token has expired, was revoked, or was signed with a key that has gone, ends. It ends
where it waits, so never in the middle of a command: what was stamped is carried out, and the answer is had by sending
the same request again.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from services.common.auth import Identity
from services.common.errors import ServiceError

LOOK_SECONDS: Final = 1.0
"""How long a stream may go on after its token."""


class Tenure:
    """One running stream."""

    __slots__ = ("identity", "over", "task")

    def __init__(self, identity: Identity, task: asyncio.Task[object]) -> None:
        self.identity = identity
        self.task = task
        self.over: ServiceError | None = None
        """Why it ends, once it does."""


_here: contextvars.ContextVar[Tenure | None] = contextvars.ContextVar("tenure", default=None)


def is_over() -> bool:
    """Whether the running stream ends because its token counts no more: then the service ends it, not the network."""
    tenure = _here.get()
    return tenure is not None and tenure.over is not None


class Tenures:
    """All running streams of a process that were opened with a token."""

    def __init__(self, ended: Callable[[Identity], ServiceError | None]) -> None:
        """`ended` says why an identity counts no more, or None; it is asked about each stream once a second."""
        self._ended = ended
        self._open: set[Tenure] = set()

    @contextmanager
    def held(self, identity: Identity) -> Iterator[None]:
        """Around a stream. Raises ServiceError (UNAUTHENTICATED) inside of it when the token counts no more."""
        task = asyncio.current_task()
        assert task is not None
        tenure = Tenure(identity, task)
        token = _here.set(tenure)
        self._open.add(tenure)
        try:
            yield
        except asyncio.CancelledError:
            # Not when somebody else wants it to end too, for example the caller, who has gone.
            if tenure.over is not None and task.uncancel() <= 0:
                raise tenure.over from None
            raise
        finally:
            self._open.discard(tenure)
            _here.reset(token)

    def look(self) -> None:
        """Ends the streams whose tokens count no more."""
        for tenure in list(self._open):
            if tenure.over is None and (over := self._ended(tenure.identity)) is not None:
                tenure.over = over
                tenure.task.cancel()

    async def keep_looking(self) -> None:
        """Every second, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()
