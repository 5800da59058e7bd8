"""Work that may block for long, each piece in a thread of its own that never keeps Conch from quitting."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Starts ``work`` in a daemon thread and gives the future of its answer, on the running loop.

    A pool would be simpler and would hang: an engine that never answers holds its thread for as long as a request may
    take, and a pool's threads are waited for at exit. A cancelled future lets go of the work; the work itself goes on.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(answer: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
            future.exception()  # seen: whoever let go of the work is not told about it again
        else:
            future.set_result(answer)  # type: ignore[arg-type]  # None only where T is None

    def run() -> None:
        answer: T | None = None
        error: BaseException | None = None
        try:
            answer = work()
        except BaseException as caught:  # noqa: BLE001 - handed to whoever awaits the future
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, answer, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


async def to_the_end(work: Coroutine[Any, Any, T]) -> tuple[T, bool]:
    """Awaits ``work`` whoever cancels meanwhile, and gives its answer and whether someone did.

    For the moments in which a command is being ended: they are short, and letting go of them would leave it running.
    """
    task = asyncio.get_running_loop().create_task(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    return task.result(), cancelled


async def is_done(future: asyncio.Future[Any], limit: float) -> bool:
    """Waits for it at most ``limit`` seconds, without letting go of it. Whether it is done."""
    await asyncio.wait({future}, timeout=limit)
    return future.done()
