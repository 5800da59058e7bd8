"""Work that may block for long, each piece in a thread of its own that never keeps Conch from quitting."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_IDLE_LIMIT = 5.0  # seconds that a thread waits for its next work: a command's few pieces come one after the other
_MOST_IDLE = 4


def in_thread(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Starts ``work`` in a daemon thread and gives the future of its answer, on the running loop.

    The library's pool would hang: an engine that never answers holds its thread for as long as a request may take, and
    a pool's threads are waited for at exit. A cancelled future lets go of the work; the work itself goes on.
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

    behind(run, name)
    return future


class _Worker:
    """A thread that did its work and waits a moment for more: to start one takes longer than to wake one."""

    def __init__(self) -> None:
        self._next: queue.SimpleQueue[tuple[Callable[[], None], str]] = queue.SimpleQueue()

    def give(self, work: Callable[[], None], name: str) -> None:
        self._next.put((work, name))

    def run(self) -> None:
        while True:
            try:
                work, name = self._next.get(timeout=_IDLE_LIMIT)
            except queue.Empty:
                with _lock:
                    if self in _idle:
                        _idle.remove(self)
                        return
                continue  # it was taken in this very moment: its work is on the way
            threading.current_thread().name = name
            work()
            del work
            threading.current_thread().name = "conch-idle"
            with _lock:
                if len(_idle) >= _MOST_IDLE:
                    return
                _idle.append(self)


_idle: list[_Worker] = []
_lock = threading.Lock()


def behind(work: Callable[[], None], name: str) -> None:
    """Starts ``work``, which raises nothing, in such a thread. Nobody is told when it has ended."""
    with _lock:
        worker = _idle.pop() if _idle else None
    if worker is None:
        worker = _Worker()
        threading.Thread(target=worker.run, name=name, daemon=True).start()
    worker.give(work, name)


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
