"""What runs on the other side: POSIX sh, find and tar, and a ``stat`` where find does not print times.

Every script gets $1, a mark that is printed before anything of ours (an rc file may print too); $2, the copy's name;
$3, a word for the copy's state, kept beside it; then its own words. The copy is ``~/.conch-work/<name>``; what is on
its way to it lies in ``~/.conch-work/.<name>/``, on the same file system and closed to others. Records end with a NUL;
ours begin with ``=``.

A change is made only after ``cd -P`` into a folder gave exactly the name that was meant: so it never goes through a
link, whatever happens meanwhile, because from there on the folder is held, not its name.
"""

from __future__ import annotations

from typing import Final

# After these a shell reads on without a separator.
_OPEN: Final = ("then", "do", "else", "{", "in", ";;", "&&", "||")


def line(text: str) -> str:
    """A script as one line, without its comments: the shell there reads a line at once, and starts nothing for it."""
    whole = ""
    for one in map(str.strip, text.splitlines()):
        if not one or one.startswith("#"):
            continue
        if one.endswith("\\"):
            whole += one[:-1]
        elif one.endswith((*_OPEN, ";")) or (one.endswith(")") and "(" not in one):  # a pattern of a case
            whole += one + " "
        else:
            whole += one + "; "
    return whole.rstrip()


_START: Final = r"""
LC_ALL=C LANG=C COPYFILE_DISABLE=1
export LC_ALL LANG COPYFILE_DISABLE
unset CDPATH TAR_OPTIONS GREP_OPTIONS ENV BASH_ENV
umask 077
PATH=${PATH:-/usr/bin:/bin}:/usr/bin:/bin
mark=$1 name=$2 word=$3
shift 3
printf '\n%s\n' "$mark"
bad() { printf '=! %s\0' "$1"; exit 3; }
cd -P -- "${HOME:-/nowhere}" 2>/dev/null || bad home
if [ -h .conch-work ]; then bad link; fi
[ -d .conch-work ] || mkdir -m 700 .conch-work 2>/dev/null || [ -d .conch-work ] || bad home-closed
cd -P -- ./.conch-work 2>/dev/null || bad home-closed
base=$PWD
root=$base/$name side=$base/.$name
if [ -h "$root" ] || [ -h "$side" ]; then bad link; fi
[ -d "$side" ] || mkdir -m 700 -- "$side" 2>/dev/null || bad home-closed
say_word() { printf '%s\n' "$word" >"$side/word.new" && mv -f -- "$side/word.new" "$side/word"; }
{ printf now >"$side/now"; } 2>/dev/null
clock=$(exec find "$side/now" -prune -regex '.*' -printf '%y %m %s %T@ %C@ %i' 2>/dev/null) || clock=
if [ -n "$clock" ]; then
  tool=find
  looks() { exec find "$@" -prune -printf '%y %m %s %T@ %C@ %i\n' 2>/dev/null; }
elif stat -c '%A %a %s %Y %Z %i %y %z' . >/dev/null 2>&1; then
  tool=stat-c
  looks() { exec stat -c '%A %a %s %Y %Z %i %y %z' -- "$@" 2>/dev/null; }
elif stat -f '%Sp %Lp %z %Fm %Fc %i' . >/dev/null 2>&1; then
  tool=stat-f
  looks() { exec stat -f '%Sp %Lp %z %Fm %Fc %i' -- "$@" 2>/dev/null; }
else
  bad no-stat
fi
[ -n "$clock" ] || clock=$(looks "$side/now")
"""

# $4 is a listing that was taken before ("-": none), $5 this one, $6… the folders that are not gone
# into (as one expression for GNU find, which is quicker, and as names). "=W" is the state's word, "=C" a file written
# just now (so its time is the time there), "=U" a folder that cannot be read, "=E" the end and how find ended. "=S":
# nothing has changed since the listing of before. That is only said where the time at which anything at all happened to
# an entry can be trusted, folders too: by GNU find, on file systems known for it. A listing's time is kept as a whole
# second, the one in which it began: so nothing after it can be missed.
_LIST: Final = r"""
list() {
  since=$1 this=$2 regex=$3
  shift 3
  word_there=
  { IFS= read -r word_there <"$side/word"; } 2>/dev/null
  printf '=W %s\0=C %s\0=T %s\0' "$word_there" "$clock" "$tool"
  if [ -h "$root" ]; then bad link; fi
  if [ ! -e "$root" ]; then printf '=M\0=E 0\0'; return; fi
  cd -P -- "$root" 2>/dev/null || bad copy-closed
  [ "$PWD" = "$root" ] || bad link
  count=$#
  for one do set -- "$@" -o -name "$one"; done
  shift "$count"
  shift
  if [ "$tool" = find ]; then set -- -regex "$regex"; fi
  case $tool$clock in
    find*.0000000000*) ;;
    find*)
      at_name=
      { IFS= read -r at_name <"$side/at.name"; } 2>/dev/null
      if [ "$since" = "$at_name" ]; then
        walked=$(exec find . -path . -printf %F: -false -o -cnewer "$side/at" -printf newer -quit \
          -o -type d \( "$@" \) -prune 2>/dev/null) || walked=
        case $walked in
          ext[234]:|ext2/ext3:|xfs:|btrfs:|tmpfs:|f2fs:|zfs:|overlay:)
            printf '=S\0=E 0\0'
            return ;;
        esac
      fi
      { echo >"$side/at.name"; } 2>/dev/null
      begun=${clock#* * * }
      if touch -d "@${begun%%.*}" "$side/at" 2>/dev/null; then printf '%s\n' "$this" >"$side/at.name"; fi ;;
  esac
  case $tool in
    find) find . -type d \( "$@" \) -prune -printf '%y %m %s %T@ %C@ %i %p\0' \
      -o -printf '%y %m %s %T@ %C@ %i %p\0' 2>/dev/null ;;
    *) find . -type d \( "$@" \) -prune -exec sh -c "$batch" sh {} + -o -exec sh -c "$batch" sh {} + 2>/dev/null ;;
  esac
  ended=$?
  if [ "$ended" != 0 ]; then
    find . -type d \( "$@" \) -prune -o -type d -exec sh -c "$closed" sh {} + 2>/dev/null
  fi
  printf '=E %s\0' "$ended"
}
case $tool in
  stat-c) batch='stat -c "%A %a %s %Y %Z %i %y %z" -- "$@"' ;;
  *) batch='stat -f "%Sp %Lp %z %Fm %Fc %i" -- "$@"' ;;
esac
batch='printf "=B %s\0" "$#"; '$batch'; printf "\0"; printf "%s\0" "$@"'
closed='for d do if [ -r "$d" ] && [ -x "$d" ]; then :; else printf "=U %s\0" "$d"; fi; done'
"""

LIST: Final = line(_START + _LIST + 'list "$@"\n')

# The names come as calls of ``t`` in a file, so that their number has no limit and their letters no meaning.
PULL: Final = line(
    _START
    + r"""
if [ -h "$root" ]; then bad link; fi
command -v tar >/dev/null 2>&1 || bad no-tar
rm -f -- "$side"/list.* 2>/dev/null
list=$side/list.$mark
cat >"$list" || bad space
cd -P -- "$root" 2>/dev/null || bad copy-closed
[ "$PWD" = "$root" ] || bad link
printf '=T go\0'
ended=0 whole=no
t() { tar -cf - -- "$@" 2>/dev/null || ended=$?; }
. "$list"
rm -f -- "$list"
say_word
printf '%-512s' "=E $whole $ended"
"""
)

# The input is a tar: what to put in place under f/, and as its last part what to do with it ("orders"). Nothing is
# touched before all of it is there.
PUSH: Final = line(
    _START
    + _LIST
    + r"""
if [ -h "$root" ]; then bad link; fi
command -v tar >/dev/null 2>&1 || bad no-tar
rm -rf -- "$side"/in.* 2>/dev/null
in=$side/in.$mark
mkdir -- "$in" 2>/dev/null || bad space
cd -P -- "$in" || bad space
heard=$(tar -xpof - 2>&1) || {
  cd / && rm -rf -- "$in"
  case $heard in *[Nn]o\ space*|*uota*) bad space ;; esac
  bad broken
}
whole=no
[ -f ./orders ] || bad broken
# g NUMBER FOLDER: goes there, or says that it could not
g() {
  at=$1
  if cd -P -- "$root" 2>/dev/null && [ "$PWD" = "$root" ]; then
    if [ "$2" = . ]; then return 0; fi
    if cd -P -- "./$2" 2>/dev/null && [ "$PWD" = "$root/$2" ]; then return 0; fi
  fi
  printf '=Z %s\0' "$at"
  return 1
}
# same EXPECTED NAME…: whether these are still what was seen
same() {
  seen=$1
  shift
  [ "$(looks "$@")" = "$seen" ] && return 0
  printf '=Z %s\0' "$at"
  return 1
}
made() {
  if [ ! -e "$root" ] && [ ! -h "$root" ] && mv -- "$in/f" "$root" 2>/dev/null; then return 0; fi
  printf '=Z 0\0'
}
none() {
  for one do
    if [ -e "$one" ] || [ -h "$one" ]; then
      printf '=Z %s\0' "$at"
      return 1
    fi
  done
}
# p NAME…: how these are now, when that is asked for instead of everything
p() { cd -P -- "$root" && find "$@" -prune -printf '%y %m %s %T@ %C@ %i %p\0' 2>/dev/null; }
orders=$side/orders.$mark some=no
rm -f -- "$side"/orders.*
{ . "$in/orders"; } 2>/dev/null
[ "$tool" = find ] || some=no
[ "$some" = no ] || mv -f -- "$in/show" "$orders" 2>/dev/null || some=no
cd "$base" && rm -rf -- "$in" 2>/dev/null
[ "$whole" = yes ] || bad broken
say_word
# Where times are whole seconds the clock must move on, so that a change after this is seen by its time.
case $tool$clock in
  find*.0000000000*) sleep 1 ;;
  find*) ;;
  stat-c*) sleep 0.05 2>/dev/null || sleep 1 ;;
  *) sleep 1 ;;
esac
printf '=L\0'
if [ "$some" = yes ]; then
  printf '=W %s\0=C %s\0' "$word" "$clock"
  { . "$orders"; } 2>/dev/null
  printf '=E 0\0'
else
  { printf now >"$side/now"; } 2>/dev/null
  clock=$(looks "$side/now")
  list "$@"
fi
rm -f -- "$orders"
"""
)

SIZES: Final = line(r"""
LC_ALL=C
export LC_ALL
printf '\n%s\n' "$1"
cd -P -- "${HOME:-/nowhere}" 2>/dev/null && cd -P -- ./.conch-work 2>/dev/null || { printf '=E\0'; exit 0; }
for one in * .[!.]*; do
  case $one in .*) continue ;; esac
  if [ -d "$one" ] && [ ! -h "$one" ]; then
    kilobytes=$(du -sk -- "./$one" 2>/dev/null) || :
    printf '%s %s\0' "${kilobytes%%[!0-9]*}" "$one"
  fi
done
printf '=E\0'
""")

REMOVE: Final = line(r"""
LC_ALL=C
export LC_ALL
printf '\n%s\n' "$1"
cd -P -- "${HOME:-/nowhere}" 2>/dev/null && cd -P -- ./.conch-work 2>/dev/null || { printf '=E\0'; exit 0; }
chmod -R u+rwX -- "./$2" 2>/dev/null
rm -rf -- "./$2" "./.$2" 2>/dev/null
if [ -e "./$2" ] || [ -h "./$2" ]; then printf '=X\0'; fi
printf '=E\0'
""")
