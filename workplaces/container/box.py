"""The box: the one function that makes the seal's flags, and the lines of shell that run inside round the command.

Nothing here touches the disk or the engine: what is asked goes in, what the engine is told comes out. So a test can
read every flag. Every box is made without its command and waits for it; one that was made ahead of its command (a
spare) is the same box, made earlier.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workplaces.container import hosts
from workplaces.container.engine import EngineFacts
from workplaces.container.ground import LOOK, covered_names
from workplaces.container.selinux import PRIVATE, RELABEL, SHARED, label
from workplaces.folder import WorkFolder

HOME = "/tmp/home"  # noqa: S108 - the box's own /tmp, not this computer's
WORK_LABEL, CHAT_LABEL, HOME_LABEL, OWNER_LABEL = "conch.work", "conch.chat", "conch.home", "conch.owner"
TMP_BYTES = 2 << 30
PIDS = 512
OPEN_FILES = 16_384
LONGEST_ARGUMENT = 128 * 1024 - 1  # MAX_ARG_STRLEN: what the kernel takes as one argument, its end included
LONGEST_COMMAND = 1 << 20  # all arguments; the kernel takes two megabytes, the environment included

# What runs first in the box. $1 is a pattern for the work folder and, when $2 is ".git", for that too, as they are
# here; when $2 is "-", it is for what lies at the folder's top, without the names that follow. It makes HOME, looks at
# which folder it sees and, only when that is the same, goes on as a shell that waits for lines on stdin. The command
# runs later and in another process, so it cannot write what is said here.
#
# That shell is a copy which nobody may read: the kernel then shows its memory and its open files to no other process of
# the same user (`would_dump` in fs/exec.c; proc(5), PR_SET_DUMPABLE). So no command can find out what it will say at
# the end. Where a copy cannot be made it is the image's own.
SHELL = f"{HOME}/sh"
FIRST_LINES = f"""\
mkdir -m 700 {HOME} 2>/dev/null
if [ "$2" = - ]; then p=$1; shift 2
{LOOK}; set -- "$s" "$p"
else set -- "$(stat -c %d:%i:%Y . $2 2>/dev/null)" "$@"; fi
case "$1" in $2) ;; *) echo $1 other; exit 125;; esac
unset PWD OLDPWD SHLVL
(umask 666; cp /bin/sh {SHELL} && {SHELL} -c :) 2>/dev/null && exec {SHELL} -s $1
exec /bin/sh -s $1"""

# The first line that the shell is given: the copy goes, and it says on one line which folder it sees and whether its
# memory is shut or bare. That line is always the first of the output.
GET_READY = f"""\
rm -f {SHELL}; if (: </proc/$$/environ) 2>/dev/null; then echo "$@" bare; else echo "$@" shut; fi
"""

_MARK_BYTES = 16
_CHECK = 'case $1 in */*) [ -f "$1" ] && [ -x "$1" ];; *) command -v -- "$1" >/dev/null;; esac'
# In a subshell, since the shell itself goes on. `unset` keeps the environment as the engine made it.
_RUN = '(shift; unset PWD OLDPWD SHLVL; exec "$@" </dev/null 2>&3 3>&-)'
# Everything but pid 1 and the shell itself (kill(2) spares these two), until nothing else is to be seen. What does not
# end (someone else's process, one that the kernel cannot end) is left to the box's own end, which comes without a mark.
# No program is started for it: there may be room for none.
_END_ALL = """\
while kill -9 -1; set -- /proc/[0-9]*; [ $# -gt 2 ]
do n=$((n+1)); [ $n -lt 20000 ] || exit $r; done"""
_MEMORY = """\
for f in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control
do [ -r $f ] && while read -r a b; do [ "$a" = oom_kill ] && o=$b; done <$f; done"""


def new_mark() -> str:
    """What only Conch and the box's shell know, once for each command."""
    return secrets.token_hex(_MARK_BYTES)


def line_for(command: str | tuple[str, ...], mark: str) -> bytes:
    """What the waiting shell is given: run this, end whatever it left, say ``mark`` on both streams, and end.

    After the mark come the exit code, ``there`` or ``missing`` (the program), and how often the kernel ended something
    of the box for want of memory. It is said again until it is out: a command may have left its output non-blocking.
    Then the shell ends without another look at its stdin, into which a command could have written.

    Without a ``mark`` (the shell's memory is bare) the command takes the shell's place, and the box ends with it.
    """
    words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words_of(command))
    if not mark:
        return f'{{ set -- {words}; unset PWD OLDPWD SHLVL; exec "$@" </dev/null; }}\n'.encode()
    say = f"printf '%s %s %s %s\\n' {mark} $r $p ${{o:-0}}"
    lines = (
        "{ exec 3>&2 2>/dev/null",
        f"set -- {words}",
        f'{_CHECK} && set -- there "$@" || set -- missing "$@"',
        _RUN,
        "r=$? p=$1 n=0 o=",
        _END_ALL,
        _MEMORY,
        f"until {say}; do :; done",
        f"until {say} >&3; do :; done",
        "exit $r; }\n",
    )
    return "\n".join(lines).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a person may choose of their boxes: gigabytes of ``memory``, ``cpus``, a ``runtime`` by the engine's name
    for it (empty: the engine's own), and whether the engine's ``gpus`` are there."""

    memory: int = 4
    cpus: int = 2
    runtime: str = ""
    gpus: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxAsk:
    """What a box is wanted for. Not for which command: it is given that later.

    ``user`` is ``uid:gid``, empty for the image's own user (Windows has no uid). ``volumes`` are the image's own.
    ``empty`` is a file of Conch's own with nothing in it, ``etc_hosts`` one for a box's ``/etc/hosts``, None for
    the engine's. ``top`` is what ``ground.top_level`` gives, where the engine is not on this very kernel.
    ``installation`` and ``owner`` say whose box it is, so that one left behind can be told from another Conch's.
    ``door`` is the id of the container whose network an open box shares, which has none but the way to the allowed
    hosts; empty for the engine's.
    """

    image: str
    folder: WorkFolder
    open: bool
    user: str
    empty: Path
    etc_hosts: Path | None = None
    top: str = ""
    options: Options = Options()
    volumes: tuple[str, ...] = ()
    chat: str = ""
    installation: str = ""
    owner: str = ""
    door: str = ""


def seal(ask: BoxAsk, facts: EngineFacts) -> dict[str, Any]:
    """What the engine is told to make: the body of ``POST /containers/create``. Each flag and why it is there:

    * ``CapDrop ALL``: no capability at all, so root inside is nobody special (no mount, no chown, no raw sockets).
    * ``no-new-privileges``: a setuid program in the image gives nothing back. The engine's seccomp and AppArmor
      defaults stay: ``SecurityOpt`` names nothing else, but where SELinux is enforcing the folder's own label.
    * ``ReadonlyRootfs``: what is not the work folder or /tmp cannot be changed, and nothing is kept.
    * ``Tmpfs /tmp``: 2 GB, in memory, so private to the box and gone with it; ``exec`` because compilers and test
      runners start what they made there; ``nosuid,nodev``.
    * ``PidsLimit``, ``Memory`` with ``MemorySwap`` equal (so no swap on top), ``NanoCpus``: a fork bomb or a leak ends
      the box and not the computer. More CPUs than the engine has would be an error.
    * ``Runtime`` and ``DeviceRequests`` only where the person chose a stronger runtime, or the graphics processors.
    * ``Ulimits``: no core dumps (they would land in the work folder); open files enough for any build, and not the
      engine's own limit, which may be without end and makes programs that close every number slow.
    * ``Init``: something reaps orphans, passes signals on, and reports 128+n for a signal.
    * ``User``: files made belong to the person. ``Env``: HOME and LANG only; nothing of this computer's environment
      goes in (the SDK's own way of making a container would add the proxy settings, so it is not used).
    * ``Mounts``: structured, never the colon form, so any folder name works. The work folder at its own path,
      ``rprivate`` so that nothing mounted inside shows here or the other way round. Sealed: ``.git`` read-only on top,
      a mount of its own, so that it can be neither written, moved nor hooked; so is the ``.git`` of each repository
      inside that the outer one lists, and all of a bare one. A protected place inside is covered: an
      empty read-only tmpfs over a folder, an empty read-only file over a file; the folders on the way to it are mounts
      too, since a mount cannot be renamed.
      A volume of the image's own would be a disk that a command can fill and that stays: an empty tmpfs stands there.
    * ``NetworkMode``: ``none`` when sealed; when open the door's, told to programs by ``Env``, or the engine's default.
      ``NetworkDisabled`` beside ``none``, where it is Docker on this kernel: the box's network is still its own, with
      nothing in it but loopback, but Docker does not manage it, which takes more than half of a start. Nor does it then
      give the box its ``/etc/hosts`` (a file of ours, so that localhost has its name) and this computer's name servers.
    * ``IpcMode private``, and every other namespace the engine's default, which is the box's own.
    * ``LogConfig none``: output comes over the attached connection; the engine keeps no copy of it on its disk.
    * ``Entrypoint``: ours, so that an image's own does not stand between; no health check; ``SIGKILL`` as the stop
      signal, since nothing is to be saved; no terminal.
    * ``OpenStdin``: the box's shell is given its one command there, over the attached connection and nowhere else;
      ``StdinOnce``: when that connection ends, so does the waiting shell. The command's own stdin is at its end.
    * ``AutoRemove`` off: it is removed explicitly, after its code and its OOM state were read.
    """
    unmanaged = _unmanaged(ask, facts)
    host: dict[str, Any] = {
        "AutoRemove": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges", *(label(ask.folder) if facts.selinux else ())],
        "ReadonlyRootfs": True,
        "Init": True,
        "IpcMode": "private",
        "LogConfig": {"Type": "none", "Config": {}},
        "NetworkMode": (f"container:{ask.door}" if ask.door else "default") if ask.open else "none",
        "Tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,size={TMP_BYTES},mode=1777"},  # noqa: S108
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": OPEN_FILES, "Hard": OPEN_FILES},
        ],
        "Mounts": [
            *_volumes(ask),
            *unmanaged,
            *_labelled(mounts(ask.folder, open=ask.open, empty=ask.empty), ask.folder, facts),
        ],
    }
    if "memory" in facts.limits:
        host["Memory"] = ask.options.memory << 30
    if "swap" in facts.limits:
        host["MemorySwap"] = ask.options.memory << 30
    if "pids" in facts.limits:
        host["PidsLimit"] = PIDS
    if "cpus" in facts.limits:
        host["NanoCpus"] = min(ask.options.cpus, facts.cpus) * 1_000_000_000
    if ask.options.runtime:
        host["Runtime"] = ask.options.runtime
    if ask.options.gpus:
        host["DeviceRequests"] = [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]
    return {
        "Image": ask.image,
        "Entrypoint": ["/bin/sh"],
        "Cmd": ["-c", FIRST_LINES, "sh", *expected(ask.folder, facts, ask.top).words()],
        "User": ask.user,
        "Env": [f"HOME={HOME}", "LANG=C.UTF-8", *(hosts.environment() if ask.open and ask.door else ())],
        "WorkingDir": str(ask.folder.path),
        "Labels": {
            WORK_LABEL: "1",
            CHAT_LABEL: ask.chat,
            HOME_LABEL: ask.installation,
            OWNER_LABEL: ask.owner,
        },
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": True,
        "StdinOnce": True,
        "Tty": False,
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        **({"NetworkDisabled": True} if unmanaged else {}),
        "HostConfig": host,
    }


def _unmanaged(ask: BoxAsk, facts: EngineFacts) -> list[dict[str, Any]]:
    """What stands for what Docker gives a box whose network it manages. Empty where it has to manage it: where a file
    of Conch's home may not be shared with it or not be readable in the box, or the runtime makes the network itself."""
    here = facts.kind == "docker" and facts.native and not facts.selinux and not ask.options.runtime
    if ask.open or not here or ask.etc_hosts is None:
        return []
    return [_mount(str(ask.etc_hosts), "/etc/hosts", read_only=True)]


def words_of(command: str | tuple[str, ...]) -> tuple[str, ...]:
    """A shell line as what runs it; a program and its arguments as they are."""
    return ("/bin/sh", "-c", command) if isinstance(command, str) else command


@dataclass(frozen=True, slots=True)
class Expected:
    """What a box must see as its work folder, and as its ``.git`` unless that is not looked at (empty). Patterns. With
    ``without`` (names) it is the digest of what lies at the folder's top."""

    folder: str
    git: str = ""
    without: tuple[str, ...] | None = None

    def words(self) -> tuple[str, ...]:
        """For the first lines."""
        if self.without is not None:
            return (self.folder, "-", *self.without)
        return (f"{self.folder}\n{self.git}", ".git") if self.git else (self.folder, "")


def expected(folder: WorkFolder, facts: EngineFacts, top: str = "") -> Expected:
    """On this kernel device and inode of the work folder and its ``.git``, which prove that it is this very folder.
    Through a virtual machine they are others: ``top``, what ``ground.top_level`` gives, has to do."""
    if not facts.native:
        return Expected(top, without=covered_names(folder))
    git = "{}:{}:*".format(*folder.git_identity) if folder.git_identity else ""
    return Expected(f"{folder.device}:{folder.inode}:*", git)


def mounts(folder: WorkFolder, *, open: bool, empty: Path) -> list[dict[str, Any]]:
    """The work folder and what lies over it, shallow ones first."""
    kept = () if open else kept_inside(folder)
    pins = dict.fromkeys((*folder.pins, *(() if open else _inside(folder, folder.repository.pinned))))
    over = [_bind(folder, path, read_only=True) for path in kept if path.parts]
    over += [_bind(folder, pin) for pin in pins if pin not in kept and not _lies_in(pin, kept)]
    for cover in folder.covers:
        target = str(folder.path / cover.inside)
        if cover.kind == "folder":
            over.append(_tmpfs(target, size=4096, mode=0o555, read_only=True))
        else:
            over.append(_mount(str(empty), target, read_only=True))
    over += _git_outside(folder, open=open)
    return [
        _bind(folder, Path(), read_only=Path() in kept),
        *sorted(over, key=lambda mount: mount["Target"].count("/")),
    ]


def _git_outside(folder: WorkFolder, *, open: bool) -> list[dict[str, Any]]:
    """Git's data that lies elsewhere, and what keeps git from tidying up the records of worktrees that a box does not
    see: it would take them for gone (git-worktree(1), prune)."""
    made, found = [], folder.outside
    if found is not None:
        made.append(_mount(str(found.source), str(found.target), read_only=not open))
    if open and found is not None and found.records is not None:
        for part, read_only in ((found.records, True), (found.record, False)):
            if part is not None:
                made.append(_mount(str(found.source / part), str(found.target / part), read_only=read_only))
    elif open and folder.records is not None:
        made.append(_bind(folder, folder.records, read_only=True))
    return made


def _labelled(made: list[dict[str, Any]], folder: WorkFolder, facts: EngineFacts) -> list[dict[str, Any]]:
    """SELinux keeps a box out of everything that has no label of its. The work folder gets a private one, git's data
    outside of it, which belongs to other worktrees too, one that all boxes share. What lies in them comes with them."""
    if not facts.selinux:
        return made
    own = {str(folder.path): PRIVATE, **({str(folder.outside.target): SHARED} if folder.outside else {})}
    return [{**mount, RELABEL: own[mount["Target"]]} if mount["Target"] in own else mount for mount in made]


def kept_inside(folder: WorkFolder) -> tuple[Path, ...]:
    """What of git's own data in the work folder a sealed box mounts read-only, from the folder on. Outermost alone."""
    covers = [cover.inside for cover in folder.covers]
    kept = [path for path in _inside(folder, folder.repository.kept) if path not in covers]
    return tuple(path for path in kept if not _lies_in(path, (*kept, *covers)))


def _inside(folder: WorkFolder, paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(path.relative_to(folder.real) for path in paths if path.is_relative_to(folder.real))


def _lies_in(path: Path, others: Sequence[Path]) -> bool:
    return any(other in path.parents for other in others)


def _bind(folder: WorkFolder, inside: Path, *, read_only: bool = False) -> dict[str, Any]:
    return _mount(str(folder.real / inside), str(folder.path / inside), read_only=read_only)


def _mount(source: str, target: str, *, read_only: bool) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": source,
        "Target": target,
        "ReadOnly": read_only,
        "BindOptions": {"Propagation": "rprivate"},
    }


def _volumes(ask: BoxAsk) -> list[dict[str, Any]]:
    own = {"/tmp", str(ask.folder.path)}  # noqa: S108
    return [_tmpfs(path, size=TMP_BYTES, mode=0o1777) for path in ask.volumes if os.path.normpath(path) not in own]


def _tmpfs(target: str, *, size: int, mode: int, read_only: bool = False) -> dict[str, Any]:
    options = {"SizeBytes": size, "Mode": mode}
    return {"Type": "tmpfs", "Target": target, "ReadOnly": read_only, "TmpfsOptions": options}
