"""Keys in the system's keychain; where there is none, in memory for this run only. Never written elsewhere."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

from app.keys.secret import Secret

log = logging.getLogger(__name__)
T = TypeVar("T")

SERVICE = "Conch"
PATIENCE = 120.0
"""Seconds: a keychain may ask the person for its password first."""

Kept = Literal["keychain", "session"]

# Backends that are a keychain. Not: null, fail, and everything that writes a file of its own.
_REAL = ("keyring.backends.SecretService", "keyring.backends.libsecret", "keyring.backends.kwallet")
_REAL_ELSEWHERE = ("keyring.backends.macOS", "keyring.backends.Windows")

NO_KEYCHAIN = (
    "This computer has no keychain that Conch can use, so a key is held only until Conch closes. "
    "Install and unlock one (GNOME Keyring or KWallet), then save the key."
)
LOCKED = (
    "The keychain is locked or did not answer, so a key is held only until Conch closes. "
    "Unlock it, then save the key again."
)


class KeychainBackend(Protocol):
    """What is needed of a ``keyring`` backend. All of it may block."""

    def get_password(self, service: str, username: str) -> str | None: ...
    def set_password(self, service: str, username: str, password: str) -> None: ...
    def delete_password(self, service: str, username: str) -> None: ...


def model_key(base_url: str) -> str:
    """The name that the key for a model's address is kept under."""
    return f"model:{base_url.strip().rstrip('/')}"


class Keychain:
    """Named secrets. Calls to the system run in a thread of their own and cannot hold up the quit.

    ``words`` is empty, or what is wrong with the keychain and the next step, as last seen.
    """

    def __init__(self, backend: KeychainBackend | None = None) -> None:
        self._given = backend
        self._session: dict[str, Secret] = {}
        self._one_at_a_time = threading.Lock()
        self.words = ""

    async def get(self, name: str) -> Secret | None:
        """The secret, None when there is none (or when the keychain cannot be asked: ``words`` says so)."""
        if (held := self._session.get(name)) is not None:
            return held
        found = await self._ask(lambda keychain: keychain.get_password(SERVICE, name))
        return Secret(found) if isinstance(found, str) else None

    async def set(self, name: str, secret: Secret) -> Kept:
        """Keeps it in the keychain, or in memory until Conch closes, and says which."""
        self._session[name] = secret
        if await self._ask(lambda keychain: keychain.set_password(SERVICE, name, secret.reveal())) is _FAILED:
            return "session"
        self._session.pop(name, None)
        return "keychain"

    def only_held(self, name: str) -> bool:
        """Whether the secret is in memory alone, and gone when Conch closes."""
        return name in self._session

    async def look(self) -> str:
        """What would become of a key that is saved now: empty when a keychain keeps it, else ``words``.

        Asks for no secret, so that nobody is asked for a password: a locked keychain is only known once it was needed.
        """
        if self.words != LOCKED:
            await self._ask(lambda _: None)
        return self.words

    async def delete(self, name: str) -> bool:
        """Forgets it, here and in the keychain. False when the keychain may still hold it."""
        self._session.pop(name, None)

        def forget(keychain: KeychainBackend) -> None:
            if keychain.get_password(SERVICE, name) is not None:
                keychain.delete_password(SERVICE, name)

        return await self._ask(forget) is not _FAILED

    async def _ask(self, what: Callable[[KeychainBackend], T]) -> T | object:
        """Gives what the keychain said, or ``_FAILED`` with ``words`` set."""

        def ask() -> T | object:
            with self._one_at_a_time:
                keychain = self._given or _system_keychain()
                return _MISSING if keychain is None else what(keychain)

        try:
            async with asyncio.timeout(PATIENCE):
                answer = await _in_thread(ask)
        except TimeoutError:
            answer, self.words = _FAILED, LOCKED
        except Exception as error:  # noqa: BLE001 - backends raise what their system raises
            log.warning("the keychain refused: %s", type(error).__name__)  # its text may name what was asked
            answer, self.words = _FAILED, LOCKED
        else:
            self.words = ""
        if answer is _MISSING:
            answer, self.words = _FAILED, NO_KEYCHAIN
        return answer


_FAILED = object()
_MISSING = object()


def _system_keychain() -> KeychainBackend | None:
    """The system's keychain, None when there is none that keeps a secret."""
    import keyring
    from keyring.errors import NoKeyringError

    try:
        found: Any = keyring.get_keyring()
    except NoKeyringError:
        return None
    # A chain asks the next one when the first fails: only what is a keychain may be asked.
    return next((one for one in getattr(found, "backends", [found]) if _is_real(one)), None)


def _is_real(backend: object) -> bool:
    return type(backend).__module__ in (*_REAL, *_REAL_ELSEWHERE)


async def _in_thread(work: Callable[[], T]) -> T:
    """Runs it in a daemon thread: a keychain that waits for a password must not keep Conch from closing."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(how: Callable[..., None], value: object) -> None:
        if not done.done():
            how(value)

    def run() -> None:
        try:
            outcome: tuple[Callable[..., None], object] = (done.set_result, work())
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            outcome = (done.set_exception, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="keychain", daemon=True).start()
    return await done
