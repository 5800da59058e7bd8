"""The mirror: a copy of the work folder on another machine, kept in step with the folder here.

``Mirror.session`` is the way in. It knows nothing of SSH: it talks to a ``Far`` (see ``far.py``).
"""

from __future__ import annotations

from workplaces.mirror.changes import Changed, KeptTwice, Left, Sent
from workplaces.mirror.far import Far, FarLost, ProgramFar, Running
from workplaces.mirror.mirror import Mirror
from workplaces.mirror.scope import DEPENDENCIES
from workplaces.mirror.session import Ask, Session
from workplaces.mirror.work import Limits

__all__ = [
    "DEPENDENCIES",
    "Ask",
    "Changed",
    "Far",
    "FarLost",
    "KeptTwice",
    "Left",
    "Limits",
    "Mirror",
    "ProgramFar",
    "Running",
    "Sent",
    "Session",
]
