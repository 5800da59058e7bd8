"""Work in a thread that can be stopped from the loop, and does not return before it has."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from workplaces.mirror.far import Running

Answer = TypeVar("Answer")


class Halted(Exception):
    """It was told to stop."""


class Halt:
    """Tells a thread to stop, and ends what it waits for."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._running: set[Running] = set()

    def stop(self) -> None:
        with self._lock:
            self._event.set()
            running = list(self._running)
        for one in running:
            one.stop()

    @property
    def stopped(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        if self._event.is_set():
            raise Halted

    def wait(self, seconds: float) -> None:
        self._event.wait(seconds)

    def follow(self, running: Running) -> None:
        """From now on ``running`` is ended too when this is told to stop."""
        with self._lock:
            self._running.add(running)
            stopped = self._event.is_set()
        if stopped:
            running.stop()

    def unfollow(self, running: Running) -> None:
        with self._lock:
            self._running.discard(running)


async def in_thread(work: Callable[[], Answer], halt: Halt) -> Answer:
    """Does ``work`` in a thread of its own. Cancelled, it halts, waits for the thread to end, and then is cancelled."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Answer] = loop.create_future()

    def tell(how: Callable[[Any], None], what: Any) -> None:
        if not done.done():
            how(what)

    def body() -> None:
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - it is given to who waits
            how, what = done.set_exception, error
        else:
            how, what = done.set_result, answer  # type: ignore[assignment]
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
            loop.call_soon_threadsafe(tell, how, what)

    threading.Thread(target=body, name="conch-mirror", daemon=True).start()
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError as error:
            if done.cancelled():
                raise
            cancelled = error
            halt.stop()
        except Exception:  # noqa: BLE001 - given below
            break
    if cancelled is not None:
        with contextlib.suppress(Exception):
            done.result()
        raise cancelled
    return done.result()
