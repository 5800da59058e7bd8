"""What is run there, in the words of a POSIX shell.

A machine's login shell may be anything (sshd(8) runs every command with it), so it is given one short line that every
shell reads alike: no newline, no quote within the quotes, no backslash, no ``!``. That line starts ``/bin/sh``, which
reads the rest from its standard input, one line at a time and not a byte further. Nothing of a command stands in an
argument list, and whatever rc files print comes before our first mark and is dropped.

A mark is 128 random bits. It travels on standard input and is held in a shell's variable: no environment, argument
list or file holds it, so a command cannot print it.
"""

from __future__ import annotations

import shlex
from typing import Final

MARK: Final = "CONCH_RUN"
"""The variable that every process of a command carries, so that it is found when it has left its parent and group."""

LONGEST_COMMAND: Final = 120 * 1024  # Linux takes 128 KB in one argument
WORK: Final = ".conch-work"
"""The folder in a home there that holds the copies."""

BOOT: Final = "exec /bin/sh -c 'IFS= read -r c && eval \"$c\"'"
"""The line that every login shell can read. What it starts waits for a line on its standard input."""

BOOT_RESTRICTED: Final = "sh -c 'IFS= read -r c && eval \"$c\"'"
"""The same for a restricted shell, which refuses ``exec`` and a program's whole name."""

# Reads a script up to a line that is the mark, and runs it only when it came whole.
_LOADER = (
    "N={mark};echo $N here;echo $N here >&2;n=$(printf '\\nx');n=${{n%x}};d=;s=;"
    'while IFS= read -r l;do case $l in "$N")d=1;break;;esac;s=$s$l$n;done;[ "$d" ]&&eval "$s"\n'
)

# How everything of a run is found: by the variable, and by its session. Processes that are dead already do not count.
# While a process becomes another program its environment is empty for a moment (execve), and one that left its session
# is then not to be seen: when nothing is found but such a one, it is looked again. It can be nobody's of ours, and have
# none for good, so that is done twice at most.
_FIND = """\
if [ -r /proc/self/environ ]; then
found() {
  grep -lsF -e "CONCH_RUN=$M" /proc/[0-9]*/environ | tr -dc '0-9\\n'
  [ -z "$S" ] || cat /proc/[0-9]*/stat |
    awk -v s="$S" '{ p = $1; sub(/^.*[)] /, ""); if ($4 == s && $1 != "Z" && $1 != "X") print p }'
}
changing() {
  for e in $(grep -Ls -e . /proc/[0-9]*/environ); do
    [ ! -e "${e%environ}exe" ] || return 0
  done
  return 1
}
else
case $(uname -s) in Darwin) e=-axwwE;; *) e=-axwwe;; esac
found() {
  ps $e -o pid= -o pgid= -o stat= -o command= | while read -r p g t x; do
    case $t in Z*) continue;; esac
    case $x in *"CONCH_RUN=$M"*) echo "$p"; continue;; esac
    [ "$g" != "${S:-none}" ] || echo "$p"
  done
}
changing() { false; }
fi
nap() { sleep 0.05 || sleep 1; }
reap() {
  i=0 j=0
  while [ $i -lt 40 ]; do
    p=$(found)
    if [ -z "$p" ]; then
      { [ $j -lt 2 ] && changing; } || return 0
      j=$((j + 1))
      nap
      continue
    fi
    kill -STOP $p
    kill -KILL $p $(found)
    [ $i -lt 2 ] || nap
    i=$((i + 1))
  done
  return 1
}
"""

# Runs one command. Descriptors: 3 the connection, 4 and 6 where errors and output go, 5 to who looks after it.
# It is looked after by the right side of a pipe, which learns from the left its session and how it ended, and which
# ends all of it when the connection says so, ends, or is silent for too long.
_RUN = """\
exec 3<&0 6>&1 4>&2 </dev/null 2>/dev/null
M={run}
S=
d=;c=
while IFS= read -r l <&3; do case $l in "$N") d=1; break;; esac; c=$c$l$n; done
[ -n "$d" ] || exit
c=${{c%"$n"}}
e=$( (umask 077; mkdir -p -- {folder} && cd -- {folder}) 2>&1) ||
  {{ echo "$N end folder $e"; echo "$N end" >&4; exit; }}
cd -- {folder}
unset OLDPWD
echo "$N at $(pwd -P)"
{find}
if command -v setsid >/dev/null; then s=setsid
elif command -v perl >/dev/null; then s='perl -MPOSIX -e POSIX::setsid();exec@ARGV'
else s=; fi
{{
  (
    {name}=$M; export {name}
    exec 2>&4 3<&- 4>&- 6>&-
    unset N
    exec $s /bin/sh -c 'echo $$ >&5; exec 5>&-; exec /bin/sh -c "$0"' "$c"
  )
  echo $? >&5
}} 5>&1 >&6 | {{
  read -r S
  echo "$N session $S" >&6
  (
    exec >/dev/null 4>&- </dev/null
    if command -v timeout >/dev/null; then
      while l=$(exec timeout {silence} /bin/sh -c 'IFS= read -r l <&3 && echo "$l"' 6>&-) && [ "$l" = beat ]; do :; done
    else
      while IFS= read -r l <&3 && [ "$l" = beat ]; do :; done
    fi
    [ "$l" = stop ] || {{ (echo "$N silent" >&6) & nap; }}
    while :; do reap; nap; done
  ) &
  w=$!
  r=
  read -r r
  kill -KILL $w
  k=sure
  reap || k=unsure
  echo "$N end $r $k" >&6
  echo "$N end" >&4
}}
"""

_SWEEP = """\
M={run}
S={session}
exec 2>/dev/null
{find}
reap && echo gone
"""

# What a machine is, in lines of name=value. Its clock is read last, so that the answer is as fresh as it can be.
_LOOK = """\
echo "user=$(id -un)"
echo "uid=$(id -u)"
echo "name=$(uname -n)"
echo "system=$(uname -s)"
echo "home=$HOME"
echo "login=$SHELL"
for p in tar find python3 setsid; do
  command -v $p >/dev/null 2>&1 && echo "has=$p"
done
[ -d "$HOME" ] && [ -w "$HOME" ] && echo writable=yes
echo "time=$(date +%s)"
"""


def loader(mark: str) -> str:
    """The first line there. ``mark`` is what our marks are, and what ends the script that follows."""
    return _LOADER.format(mark=mark)


def whole(mark: str, script: str) -> bytes:
    """All that is sent so that ``script`` is read and run. What is sent after it is the script's standard input."""
    return f"{loader(mark)}{script.rstrip(chr(10))}\n{mark}\n".encode()


def plain(mark: str, script: str) -> bytes:
    """``script`` with its end told: how it ended, on both streams."""
    return whole(mark, f'(\n{script}\n)\nr=$?\necho "$N end $r sure"\necho "$N end" >&2')


def run(mark: str, run: str, folder: str, command: str | tuple[str, ...], silence: int) -> bytes:
    """Runs a command in ``folder`` there and ends everything that came of it.

    ``run`` is what its processes carry. ``silence``: seconds without a word from here after which it is ended. What may
    follow on standard input are lines: ``beat`` (we are here), and anything else, or its end, which ends the command.
    """
    script = _RUN.format(run=run, folder=shlex.quote(folder), find=_FIND, name=MARK, silence=silence)
    return whole(mark, script) + text_of(command) + f"\n{mark}\n".encode()


def text_of(command: str | tuple[str, ...]) -> bytes:
    """A command as the shell there reads it. Raises UnicodeEncodeError when it is no text."""
    text = command if isinstance(command, str) else "exec " + " ".join(map(shlex.quote, command))
    return text.encode("utf-8", "surrogateescape")


def sweep(run: str, session: str) -> str:
    """Ends what is left of a run. Prints ``gone`` when nothing of it lives there. ``session`` is its own, or empty."""
    return _SWEEP.format(run=run, session=session if session.isdecimal() else "", find=_FIND)


def look() -> str:
    """Prints what the machine is."""
    return _LOOK
