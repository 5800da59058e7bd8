# shellcheck shell=sh
# The set-up itself, for packaging/run and tests/run, which read it in only when there is something to set up.
# They have set: root (this checkout) and venv (where its Python goes).
root=${root:?} venv=${venv:?}

# What Qt needs of the system: the library's name, then the Debian package that brings it. Taken from what ldd says of
# PySide6's own libraries and of its X11 platform; tests/packaging holds the three together.
qt_libraries='
libEGL.so.1 libegl1
libGL.so.1 libgl1
libX11.so.6 libx11-6
libdbus-1.so.3 libdbus-1-3
libfontconfig.so.1 libfontconfig1
libfreetype.so.6 libfreetype6
libglib-2.0.so.0 libglib2.0-0
libgthread-2.0.so.0 libglib2.0-0
libxkbcommon.so.0 libxkbcommon0
libzstd.so.1 libzstd1
'
x11_libraries='
libX11-xcb.so.1 libx11-xcb1
libxcb-cursor.so.0 libxcb-cursor0
libxcb-icccm.so.4 libxcb-icccm4
libxcb-image.so.0 libxcb-image0
libxcb-keysyms.so.1 libxcb-keysyms1
libxcb-randr.so.0 libxcb-randr0
libxcb-render-util.so.0 libxcb-render-util0
libxcb-render.so.0 libxcb-render0
libxcb-shape.so.0 libxcb-shape0
libxcb-shm.so.0 libxcb-shm0
libxcb-sync.so.1 libxcb-sync1
libxcb-util.so.1 libxcb-util1
libxcb-xfixes.so.0 libxcb-xfixes0
libxcb-xkb.so.1 libxcb-xkb1
libxcb.so.1 libxcb1
libxkbcommon-x11.so.0 libxkbcommon-x11-0
'

say() {
  printf 'Conch: %s\n' "$*" >&2
}

# fail CODE SENTENCE
fail() {
  code=$1
  shift
  say "$*"
  exit "$code"
}

# ---- Python -----------------------------------------------------------------------------------------------------

# Whether a program is a Python of version 3.$2 that can carry Conch. Prints where it really is (a pyenv shim may only
# point elsewhere, or nowhere). Code 3: all is well but the module that makes a venv is missing.
try_python() {
  "$1" -I -c '
import os, sys, sysconfig
fits = sys.version_info[:2] == (3, int(sys.argv[1])) and sys.implementation.name == "cpython"
if not fits or sys.maxsize < 2**32 or sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit(1)
import ctypes, fcntl, sqlite3, ssl
try:
    import ensurepip, venv
except ImportError:
    sys.exit(3)
print(getattr(sys, "_base_executable", None) or sys.executable)
' "$2" 2>/dev/null </dev/null
}

# The Pythons that carry Conch, the newest first: 3.13…
python_minors='13 12 11'

# Sets python and python_version to the newest of them that really works.
find_python() {
  python='' python_version='' python_lacks_venv=''
  for minor in $python_minors; do
    candidates=
    old_ifs=$IFS
    IFS=:
    for folder in $PATH; do
      [ -x "${folder:-.}/python3.$minor" ] && candidates="$candidates:${folder:-.}/python3.$minor"
    done
    for folder in "${PYENV_ROOT:-${HOME:-/nonexistent}/.pyenv}/versions/3.$minor".*/bin \
      /usr/bin /usr/local/bin /opt/homebrew/bin; do
      [ -x "$folder/python3.$minor" ] && candidates="$candidates:$folder/python3.$minor"
    done
    for folder in $PATH; do
      [ -x "${folder:-.}/python3" ] && candidates="$candidates:${folder:-.}/python3"
    done
    for candidate in ${candidates#:}; do
      IFS=$old_ifs
      if python=$(try_python "$candidate" "$minor") && [ -n "$python" ]; then
        python_version=3.$minor
        return 0
      elif [ $? -eq 3 ]; then
        python_lacks_venv=3.$minor
      fi
    done
    IFS=$old_ifs
  done
  python=''
  return 1
}

# ---- system packages ----------------------------------------------------------------------------------------------

is_debian() {
  [ -r /etc/debian_version ] && command -v apt-get >/dev/null 2>&1
}

may_install() {
  [ "$(id -u)" = 0 ] && is_debian
}

# Prints the packages that bring what Qt misses here: its libraries, and a font.
missing_qt() {
  [ "$(uname -s)" = Linux ] || return 0
  known=$({ /sbin/ldconfig -p || ldconfig -p; } 2>/dev/null) || return 0
  printf '%s\n' "$qt_libraries$x11_libraries" | {
    listed=' '
    while read -r library package; do
      [ -n "$library" ] || continue
      case $known in *"	$library "*) continue ;; esac
      case $listed in *" $package "*) ;; *) listed="$listed$package " ;; esac
    done
    printf '%s' "${listed# }"
  }
  for font in /usr/share/fonts/*/* /usr/local/share/fonts/* "${HOME:-/nonexistent}"/.local/share/fonts/* \
    "${HOME:-/nonexistent}"/.fonts/*; do
    [ -e "$font" ] && return 0
  done
  printf 'fonts-dejavu-core '
}

# Prints what else of the system Conch leans on and misses here.
missing_programs() {
  [ "$(uname -s)" = Linux ] || return 0
  command -v bwrap >/dev/null 2>&1 || printf 'bubblewrap '
}

# Installs Debian packages; only ever called as root.
install_packages() {
  say "Installing system packages: $*"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq -o DPkg::Lock::Timeout=300 update >&2 </dev/null || say "The package lists are not up to date."
  install_log=$(mktemp) || exit 73
  apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install --no-install-recommends "$@" \
    >"$install_log" 2>&1 </dev/null || {
    cat "$install_log" >&2
    rm -f "$install_log"
    fail 69 "The system packages could not be installed. What apt-get said is above."
  }
  rm -f "$install_log"
}

# say_command PACKAGE…: says the one command that brings the packages.
say_command() {
  if is_debian; then
    say "An administrator brings what is missing with this one command:"
    printf "\n  sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends %s'\n\n" "$*" >&2
  else
    say "Install what this system calls these (the names are Debian's): $*"
  fi
}

# ---- the parts ------------------------------------------------------------------------------------------------------

# set_up NAME LOCK [PACKAGES]: brings everything. NAME is what the lock is kept as. What PACKAGES names must be brought
# or the set-up ends; without them only a Python must be there, and Conch itself says what else it misses when it does.
# Sets window to yes or no: whether Qt finds what a window needs.
set_up() {
  set_up_name=$1 set_up_lock=$2 set_up_packages=${3-}
  find_python || true
  wanted=$set_up_packages
  [ -n "$wanted" ] || wanted=$(missing_qt)
  [ -n "$python" ] || wanted="python3 python3-venv $wanted"
  case $wanted in *bubblewrap*) ;; *) wanted="$wanted$(missing_programs)" ;; esac
  if [ -n "$wanted" ] && may_install; then
    # shellcheck disable=SC2086
    install_packages $wanted
    [ -n "$python" ] || find_python || true
  elif [ -n "$set_up_packages" ]; then
    say "This system lacks something that is needed."
    # shellcheck disable=SC2086
    say_command $wanted
    exit 69
  fi
  if [ -z "$python" ]; then
    if [ -n "$python_lacks_venv" ]; then
      say "Python $python_lacks_venv is here, but not its part that makes a folder for Conch (venv)."
    else
      say "Python 3.11, 3.12 or 3.13 is needed, and none that works was found."
    fi
    # shellcheck disable=SC2086
    say_command $wanted
    exit 69
  fi
  [ -w "$root" ] ||
    fail 73 "The set-up cannot go on: $root is not yours to write in. Use a copy of your own."
  case $root in *'
'*) fail 73 "The set-up cannot go on in a folder with a line break in its name." ;; esac

  # One set-up at a time. The lock is the kernel's, so it is free again whatever becomes of its holder.
  [ ! -e "$root/.venv.lock" ] || [ -w "$root/.venv.lock" ] ||
    fail 73 "The set-up cannot go on: another user began it in $root. Use a copy of your own."
  exec 9>"$root/.venv.lock"
  "$python" -I -c '
import fcntl, sys
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("Conch: Another start is setting Conch up; waiting for it.", file=sys.stderr, flush=True)
    fcntl.flock(9, fcntl.LOCK_EX)
' || exit 75
  if ! is_current; then
    trap 'say "The set-up was cut short. Start it again and it goes on."; exit 75' INT TERM HUP
    fill_venv
    trap - INT TERM HUP
  fi
  window=no
  [ -n "$(missing_qt)" ] || window=yes
  write_stamp
  exec 9>&-
}

# Says, once, what works less until an administrator has helped.
say_what_is_missing() {
  if [ "$window" = no ]; then
    say "Everything but the window works already: Qt misses some of this system's libraries."
    # shellcheck disable=SC2046
    say_command $(missing_qt) $(missing_programs)
  elif [ -n "$(missing_programs)" ]; then
    say "Commands on this computer cannot be sealed yet: bubblewrap is missing."
    say_command bubblewrap
  fi
}

# Whether the venv holds what the lock says, made for this Python, in this folder.
is_current() {
  [ -x "$venv/bin/python" ] && [ ! -e "$venv/conch/unfinished" ] && [ -r "$venv/conch/python" ] &&
    [ "$(cat "$venv/conch/python")" = "$python_version" ] &&
    [ "$(cat "$venv/conch/where" 2>/dev/null)" = "$root" ] &&
    cmp -s "$set_up_lock" "$venv/conch/$set_up_name.lock"
}

# Makes the venv if there is none that fits, and brings the locked parts. What was cut short is made anew.
fill_venv() {
  if [ -e "$venv/conch/unfinished" ] || ! has_pip; then
    say "Setting up with Python $python_version (once)…"
    rm -rf "$venv"
    "$python" -I -m venv "$venv" >&2 </dev/null || fail 73 "Python could not make $venv. What it said is above."
  fi
  mkdir -p "$venv/conch"
  : >"$venv/conch/unfinished"
  rm -f "$venv/conch/stamp"
  say "Bringing the parts that Conch is made of…"
  # A setting that sends packages elsewhere would leave the venv empty; where they come from stays the person's choice.
  (
    unset PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIRE_VIRTUALENV PIP_NO_DEPS PIP_DRY_RUN
    PIP_USER=0 exec "$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-input \
      --progress-bar off --no-warn-script-location --require-hashes --only-binary :all: --no-deps \
      -r "$set_up_lock" >"$venv/conch/pip.log" 2>&1 </dev/null 9>&-
  ) || {
    cat "$venv/conch/pip.log" >&2
    fail 75 "The parts could not be brought. What pip said is above; look at the connection and start again."
  }
  for packages in "$venv"/lib/python3.*/site-packages; do
    printf '%s\n' "$root" >"$packages/conch.pth"
  done
  printf '%s\n' "$python_version" >"$venv/conch/python"
  printf '%s\n' "$root" >"$venv/conch/where"
  cp "$set_up_lock" "$venv/conch/$set_up_name.lock"
  rm -f "$venv/conch/unfinished"
  say "Ready."
}

# Whether there is a venv of the right Python, with a pip in it.
has_pip() {
  [ -x "$venv/bin/python" ] &&
    "$venv/bin/python" -I -c 'import sys, pip; sys.exit("3.%d" % sys.version_info[1] != sys.argv[1])' \
      "$python_version" 2>/dev/null </dev/null
}

# The last thing written: from now on a start looks at nothing else.
write_stamp() {
  printf '1 %s %s\n' "$window" "$root" >"$venv/conch/stamp.new" && mv -f "$venv/conch/stamp.new" "$venv/conch/stamp"
}

# Ends with words when the window cannot open. An administrator may have helped since the set-up.
check_window() {
  # Wayland and pictures in memory do without X11's libraries.
  case ${QT_QPA_PLATFORM:-xcb} in xcb*) ;; *) x11_libraries= ;; esac
  wanted=$(missing_qt)
  if [ -n "$wanted" ] && may_install; then
    # shellcheck disable=SC2086
    install_packages $wanted
    wanted=$(missing_qt)
  fi
  if [ -n "$wanted" ]; then
    say "The window cannot open: Qt misses some of this system's libraries. Everything without a window works."
    # shellcheck disable=SC2086
    say_command $wanted
    exit 69
  fi
  window=yes
  if [ -n "$x11_libraries" ] && [ -w "$venv/conch" ]; then
    write_stamp
  fi
}
