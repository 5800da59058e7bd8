"""The log: a file in Conch's home, never the person's screen, and never a key in it."""

from __future__ import annotations

import logging
import re
import sys
import threading
from pathlib import Path
from types import TracebackType

from app.files import owner_only
from app.keys.secret import known_secrets

LARGEST = 1024 * 1024
KEPT = 3
HIDDEN = "[hidden]"

# What looks like a key although nobody told us that it is one.
_PATTERNS = (
    re.compile(r"(?i)(\b(?:bearer|basic|token)\s+)[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(
        r"""(?ix)(["']?\b(?:authorization|x-api-key|api[_-]?key|access[_-]?token|secret|password|passwd)["']?\s*[:=]\s*)
        (?!(?:bearer|basic|token)\s)(?:"[^"]*"|'[^']*'|[^\s,;&)}\]]+)"""
    ),
    re.compile(r"()\b(?:sk|dtn|ghp|gho|ghs|github_pat|xox[abp]|AKIA)[-_]?[A-Za-z0-9_-]{12,}"),
    re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://)[^\s/@]+@"),
)


def redact(text: str) -> str:
    """The text without any secret that this process knows, and without what looks like one."""
    for secret in known_secrets():
        text = text.replace(secret, HIDDEN)
    for pattern in _PATTERNS[:-1]:
        text = pattern.sub(rf"\1{HIDDEN}", text)
    return _PATTERNS[-1].sub(rf"\1{HIDDEN}@", text)


class Redacting(logging.Formatter):
    """Hides secrets in the whole line, arguments and traceback included, after everything is put together."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


def start_log(folder: Path) -> Path:
    """Sends this process's log to ``conch.log`` there (owner-only, at most 4 MB in all) and gives its path."""
    from logging.handlers import RotatingFileHandler

    class Quiet(RotatingFileHandler):
        def _open(self):  # type: ignore[no-untyped-def]  # typeshed gives it a type of its own that cannot be named
            return open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=owner_only)

        def handleError(self, record: logging.LogRecord) -> None:
            # A full disk must not print a traceback on the person's screen, nor stop what they are doing.
            pass

    path = folder / "conch.log"
    handler = Quiet(path, maxBytes=LARGEST, backupCount=KEPT, encoding="utf-8", errors="backslashreplace", delay=True)
    handler.setFormatter(Redacting("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    # httpx names every address it asks at INFO; addresses are the person's business.
    for chatty in ("httpx", "httpcore", "urllib3", "docker"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    sys.excepthook = _unexpected
    threading.excepthook = lambda what: _unexpected(what.exc_type, what.exc_value, what.exc_traceback)
    return path


def _unexpected(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if error is not None and not issubclass(kind, KeyboardInterrupt):
        logging.getLogger("app").critical("unexpected", exc_info=(kind, error, trace))
