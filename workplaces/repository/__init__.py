"""A work folder's git repository: what of it a sealed command must leave as it is, and whether it did.

Git runs programs that a repository's own data names: hooks, ``core.fsmonitor``, filters (githooks(5), git-config(1)).
Whoever writes that data runs code as the person at their next git command, so no sealed command may, whichever way git
comes to it: ``.git`` as a folder, as the file of a worktree or submodule, as a link; the repositories inside that the
outer one's commands enter by themselves; a bare one. Conch itself never starts git for this.
"""
