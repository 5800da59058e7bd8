"""packaging/setup.sh finds the newest Python that works, and knows what Qt needs of the system."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at Linux's libraries and packages")


def shell(code: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs shell code with the set-up's functions read in."""
    whole = f'root=$PWD venv=$PWD/.venv\n. "{ROOT}/packaging/setup.sh"\n{code}\n'
    return subprocess.run(
        ["/bin/sh", "-u", "-c", whole],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path / "pyenv"), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def fake(file: Path, body: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return file


def python(file: Path, minor: int) -> Path:
    """Something that answers as Python 3.``minor`` does to the set-up's question (its fourth word)."""
    return fake(file, f'[ "$4" = {minor} ] && echo "$0"')


def found(tmp_path: Path, *folders: str) -> str:
    path = ":".join([*(str(tmp_path / folder) for folder in folders), os.environ["PATH"]])
    return shell('find_python && echo "$python_version $python"', tmp_path, PATH=path).stdout.strip()


def test_the_newest_python_is_taken_wherever_it_is(tmp_path: Path) -> None:
    python(tmp_path / "a" / "python3.12", 12)
    newest = python(tmp_path / "b" / "python3.13", 13)
    assert found(tmp_path, "a", "b") == f"3.13 {newest}"


def test_a_python_that_does_not_work_is_passed_over(tmp_path: Path) -> None:
    fake(tmp_path / "shims" / "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    works = python(tmp_path / "b" / "python3.13", 13)
    assert found(tmp_path, "shims", "b") == f"3.13 {works}"


def test_pyenv_and_a_plain_python3_count_too(tmp_path: Path) -> None:
    kept = python(tmp_path / "pyenv" / "versions" / "3.13.9" / "bin" / "python3.13", 13)
    assert found(tmp_path) == f"3.13 {kept}"
    kept.unlink()
    plain = python(tmp_path / "c" / "python3", 13)
    assert found(tmp_path, "c") == f"3.13 {plain}"


def test_a_newer_python_than_conch_knows_is_left_alone(tmp_path: Path) -> None:
    python(tmp_path / "a" / "python3", 14)
    python(tmp_path / "a" / "python3.14", 14)
    works = python(tmp_path / "b" / "python3.13", 13)
    assert found(tmp_path, "a", "b") == f"3.13 {works}"


def test_the_running_python_answers_the_question_itself(tmp_path: Path) -> None:
    done = shell(f'try_python "{sys.executable}" {sys.version_info[1]}', tmp_path)
    assert done.returncode == 0
    assert Path(done.stdout.strip()).exists()
    assert shell(f'try_python "{sys.executable}" 99', tmp_path).returncode == 1


def test_without_a_python_an_ordinary_user_is_told_one_command(tmp_path: Path) -> None:
    code = "may_install() { return 1; }; is_debian() { return 0; }; python_minors=99; set_up run /dev/null"
    done = shell(code, tmp_path)
    assert done.returncode == 69
    assert done.stdout == ""
    assert "Python 3.11, 3.12 or 3.13 is needed" in done.stderr
    assert done.stderr.count("sudo ") == 1
    assert " python3 python3-venv" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_python_without_its_venv_is_named(tmp_path: Path) -> None:
    fake(tmp_path / "a" / "python3.99", "exit 3")
    code = "may_install() { return 1; }; is_debian() { return 0; }; python_minors=99; set_up run /dev/null"
    done = shell(code, tmp_path, PATH=f"{tmp_path / 'a'}:{os.environ['PATH']}")
    assert done.returncode == 69
    assert "Python 3.99 is here, but not its part" in done.stderr


_LACKS = "qt_libraries='libnothere.so.9 libnothere9'; x11_libraries=''; is_debian() { return 0; };"


def test_without_qts_libraries_an_ordinary_user_is_told_one_command(tmp_path: Path) -> None:
    done = shell(f"{_LACKS} may_install() {{ return 1; }}; check_window; echo went on", tmp_path)
    assert done.returncode == 69
    assert "went on" not in done.stdout
    assert done.stderr.count("sudo ") == 1
    assert "libnothere9" in done.stderr


def test_root_gets_them_installed(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    fake(tmp_path / "bin" / "apt-get", f'echo "$@" >>"{asked}"')
    code = f"{_LACKS} may_install() {{ return 0; }}; check_window"
    done = shell(code, tmp_path, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    first, second = asked.read_text().splitlines()
    assert " update" in first
    assert " install --no-install-recommends libnothere9" in second
    assert done.returncode == 69  # this apt-get brought nothing


def test_pictures_in_memory_do_without_x11(tmp_path: Path) -> None:
    code = "qt_libraries='libc.so.6 libc6'; x11_libraries='libnothere.so.9 libnothere9'; check_window; echo went on"
    done = shell(code, tmp_path, QT_QPA_PLATFORM="offscreen")
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_where_nothing_is_missing_nothing_is_asked_for(tmp_path: Path) -> None:
    fake(tmp_path / ".fonts" / "some.ttf", "")
    code = "qt_libraries='\nlibc.so.6 libc6\nlibm.so.6 libc6\n'; x11_libraries=''; missing_qt"
    assert shell(code, tmp_path).stdout == ""
    code = "qt_libraries='\nliba.so.9 liba9\nlibc.so.6 libc6\nlibb.so.9 liba9\n'; x11_libraries=''; missing_qt"
    assert shell(code, tmp_path).stdout == "liba9 "


def test_the_list_of_libraries_is_what_qt_asks_for(tmp_path: Path) -> None:
    """Every library that the window's parts name and do not bring themselves is in the list, and no other."""
    import PySide6

    home = Path(PySide6.__file__).parent
    parts = [home / f"Qt{name}.abi3.so" for name in ("Core", "Gui", "Widgets", "Svg")]
    parts += [home / "Qt" / "lib" / f"libQt6{name}.so.6" for name in ("Core", "Gui", "Widgets", "Svg", "DBus")]
    parts += [home / "Qt" / "plugins" / "platforms" / "libqoffscreen.so"]
    x11 = [home / "Qt" / "lib" / "libQt6XcbQpa.so.6", home / "Qt" / "plugins" / "platforms" / "libqxcb.so"]
    every = shell('printf "%s" "$qt_libraries$x11_libraries"', tmp_path).stdout.split()[::2]
    always = shell('printf "%s" "$qt_libraries"', tmp_path).stdout.split()[::2]
    # part of every Debian, however small
    base = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libz|ld-linux.*)\.so\.\d+")
    own = re.compile(r"lib(Qt6|pyside6|shiboken6|icu).*")

    def asked(files: list[Path]) -> set[str]:
        names = {name for file in files for name in _needed(file)}
        return {name for name in names if not base.fullmatch(name) and not own.fullmatch(name)}

    assert asked(parts) <= set(always)
    assert asked(parts + x11) == set(every)


def _needed(file: Path) -> list[str]:
    """The libraries an ELF file (64 bits, little-endian) names: DT_NEEDED of its dynamic section (elf(5))."""
    data = file.read_bytes()
    (at,) = struct.unpack_from("<Q", data, 0x20)  # e_phoff
    size, count = struct.unpack_from("<HH", data, 0x36)
    heads = [struct.unpack_from("<IIQQQQ", data, at + size * number) for number in range(count)]
    dynamic = next(head for head in heads if head[0] == 2)
    entries = list(struct.iter_unpack("<QQ", data[dynamic[2] : dynamic[2] + dynamic[5]]))
    strings = next(value for tag, value in entries if tag == 5)
    load = next(head for head in heads if head[0] == 1 and head[3] <= strings < head[3] + head[5])
    start = strings - load[3] + load[2]
    names = [start + value for tag, value in entries if tag == 1]
    return [data[name : data.index(b"\0", name)].decode() for name in names]
