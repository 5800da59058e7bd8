"""The mirror: a copy of the work folder on another machine, kept in step with the folder here.

``mirror.Mirror.session`` is the way in. It knows nothing of SSH: it talks to a ``Far`` (see ``far.py``). Nothing is
imported here: ``watch`` serves every chat from the start, and the rest takes as long to load as a window to open.
"""
