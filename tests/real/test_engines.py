"""The real parts hold what they promise: without that, what stands on them proves nothing."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.real.engines import images
from tests.real.engines.display import Display
from tests.real.engines.dockerd import Dockerd
from tests.real.engines.person import Person

pytestmark = pytest.mark.real


def test_docker_serves_the_default_image_from_a_mirror(docker_host: Dockerd) -> None:
    command = [
        "sh",
        "-c",
        "node --version; id -u node; cc --version | head -1; git --version; python3 -V; ps --version",
    ]
    with docker_host.client() as client:
        printed = client.containers.run(docker_host.image, command, remove=True, network_disabled=True).decode()
        entry = client.containers.run(docker_host.image, ["-p", "process.version"], remove=True).decode()
    assert printed.startswith("v24.")
    assert "1000" in printed
    assert "git version" in printed
    assert entry.startswith("v24.")


def test_an_open_box_has_a_network_and_sees_this_computer(docker_host: Dockerd) -> None:
    with docker_host.client() as client:
        printed = client.containers.run(docker_host.image, ["cat", "/proc/net/route"], remove=True).decode()
    gateway = "".join(f"{int(part):02X}" for part in reversed(docker_host.gateway.split(".")))
    assert gateway in printed


def test_limits_hold_in_this_docker(docker_host: Dockerd) -> None:
    read = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null || true"
    with docker_host.client() as client:
        printed = client.containers.run(docker_host.image, ["sh", "-c", read], mem_limit="64m", remove=True).decode()
    assert str(64 * 1024 * 1024) in printed


def test_an_image_that_is_nowhere_is_said_to_be(docker_host: Dockerd) -> None:
    import docker.errors

    with pytest.raises(docker.errors.NotFound):
        docker_host.pull(f"{docker_host.registry}/library/none:1")


def test_a_cache_that_is_not_whole_is_seen(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"12345")
    assert not images.is_whole(tmp_path)
    images.seal(tmp_path)
    assert images.is_whole(tmp_path)
    (tmp_path / "blob").write_bytes(b"123")
    assert not images.is_whole(tmp_path)


def test_a_fresh_docker_holds_nothing(fresh_dockerd: Dockerd) -> None:
    assert json.loads(fresh_dockerd.get("/images/json?all=1")[1]) == []
    fresh_dockerd.pull(fresh_dockerd.bare)
    with fresh_dockerd.client() as client:
        assert client.containers.run(fresh_dockerd.bare, remove=True) == b"bare\n"


def test_a_pull_can_be_slowed_down(fresh_dockerd: Dockerd) -> None:
    with fresh_dockerd.slowly(40_000_000):
        start = time.monotonic()
        fresh_dockerd.pull(fresh_dockerd.slow)
    assert time.monotonic() - start > 2


def test_docker_can_be_stopped_and_started_again(docker_host: Dockerd) -> None:
    docker_host.stop()
    with pytest.raises(OSError):  # noqa: PT011  # which one is the system's business
        docker_host.get("/_ping")
    docker_host.start()
    assert docker_host.get("/_ping") == (200, b"OK")


def test_an_ordinary_user_runs_this_checkout(ordinary_user: Person, dockerd: Dockerd) -> None:
    code = "import os, sys, workplaces.place, docker; print(os.getuid(), os.path.expanduser('~'), sys.prefix)"
    done = ordinary_user.python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == [str(ordinary_user.uid), str(ordinary_user.home)]
    code = "import docker, sys; print(docker.DockerClient(base_url=sys.argv[1]).ping())"
    assert ordinary_user.python(code, dockerd.host).stdout.strip() == "True"


def test_an_ordinary_user_has_no_rights_left_over(ordinary_user: Person) -> None:
    done = ordinary_user.run("sh", "-c", "grep -h ^Cap /proc/self/status; cat /etc/shadow; ls /root")
    assert "Permission denied" in done.stderr
    rights = dict(line.split(":\t") for line in done.stdout.splitlines() if line.startswith("Cap"))
    assert int(rights["CapEff"], 16) == int(rights["CapPrm"], 16) == 0
    made = ordinary_user.run("sh", "-c", "echo hi > mine; stat -c %u mine")
    assert made.stdout.strip() == str(ordinary_user.uid)


def test_a_display_takes_a_window_and_keys(xvfb: Display, tmp_path: Path) -> None:
    import subprocess
    import sys

    from PySide6.QtGui import QImage

    code = (
        "import sys; from PySide6.QtWidgets import QApplication, QLineEdit\n"
        "app = QApplication([]); line = QLineEdit(); line.setWindowTitle('conch-keys'); line.show()\n"
        "line.returnPressed.connect(lambda: (print(line.text(), flush=True), app.quit())); app.exec()"
    )
    with subprocess.Popen([sys.executable, "-c", code], env=xvfb.env, stdout=subprocess.PIPE, text=True) as shown:
        try:
            xvfb.xdotool("search", "--sync", "--onlyvisible", "--name", "conch-keys", "windowfocus", "--sync")
            xvfb.xdotool("type", "hello")
            xvfb.picture(tmp_path / "shown.png")
            xvfb.xdotool("key", "Return")
            assert shown.stdout is not None
            assert shown.stdout.readline() == "hello\n"
        finally:
            shown.kill()
    picture = QImage(str(tmp_path / "shown.png"))
    inks = {picture.pixel(x, y) for x in range(120) for y in range(40)}
    assert picture.width() == 1400
    assert len(inks) > 5  # letters are drawn with soft edges
    stranger = {**xvfb.env, "XAUTHORITY": str(tmp_path / "none")}
    look = subprocess.run(["xwininfo", "-root"], env=stranger, capture_output=True, check=False)
    assert look.returncode != 0
    assert os.environ.get("DISPLAY", "") != xvfb.name
