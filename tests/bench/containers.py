"""What a command in a container costs: ``python -m tests.bench.containers [--json] [--rounds N]``.

On a real Docker of its own, against its own command line in the same rounds:

- *sealed* and *open*: ``true`` through Conch, from asking to the box being gone (the folder proven, every flag read
  back, the output kept), against ``docker run --rm`` with the same flags.
- *output*: 100 MB, against ``docker run --rm`` with no log, emptied into nothing.
- *stop*: from Stop to every process dead and the box gone, against ``docker rm --force`` of such a box.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bench.common import Bar, Subject, parse, ratio, report, take_turns, timed
from tests.real.engines import dockerd as dockers
from tests.real.engines.dockerd import Dockerd
from tests.real.engines.needs import need
from workplaces.container.box import MEMORY, OPEN_FILES, PIDS, TMP_BYTES
from workplaces.container.place import Container
from workplaces.output import OutputKeeper
from workplaces.place import RunRequest, Stopped

MOST_SEALED, MOST_OPEN, MOST_OUTPUT, MOST_STOP = 1.05, 1.05, 1.25, 1.05
_SIZE = 100 * 1024 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments, rounds=25, about=__doc__ or "")
    try:
        need("docker", *dockers.PROGRAMS, root=True)
    except (pytest.skip.Exception, pytest.fail.Exception) as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    with (
        dockers.shared() as engine,
        tempfile.TemporaryDirectory(prefix="conch-bench-") as scratch,
        asyncio.Runner() as runner,
    ):
        os.environ["DOCKER_HOST"] = engine.host
        bench = Bench(engine, Path(scratch), runner)
        starts = take_turns(
            {
                "sealed": bench.conch("true"),
                "open": bench.conch("true", opened=True),
                "docker run": bench.docker("true"),
                "docker run, open": bench.docker("true", opened=True),
            },
            rounds=given.rounds,
            warm_up=3,
        )
        line = f"head -c {_SIZE} /dev/zero"
        streams = take_turns(
            {"output": bench.conch(line), "docker run output": bench.docker(line)}, rounds=max(5, given.rounds // 3)
        )
        stops = take_turns(
            {"stop": bench.stop, "docker rm --force": bench.docker_stop}, rounds=max(5, given.rounds // 2)
        )
        runner.run(bench.place.close())
    bars = [
        Bar("a sealed command", ratio(starts, "sealed", "docker run"), MOST_SEALED),
        Bar("an open command", ratio(starts, "open", "docker run, open"), MOST_OPEN),
        Bar("100 MB of output", ratio(streams, "output", "docker run output"), MOST_OUTPUT),
        Bar("stop", ratio(stops, "stop", "docker rm --force"), MOST_STOP),
    ]
    return report("containers", {**starts, **streams, **stops}, bars, given, facts={"image": engine.image})


class Bench:
    """The same box, by Conch and by the command line."""

    def __init__(self, engine: Dockerd, scratch: Path, runner: asyncio.Runner) -> None:
        self.place = Container(scratch / "conch", image=lambda: engine.image)
        self._engine = engine
        self._runner = runner
        self._folder = scratch / "work"
        (self._folder / ".git").mkdir(parents=True)

    def conch(self, command: str, *, opened: bool = False) -> Subject:
        def once() -> None:
            request = RunRequest(command=command, folder=self._folder, open=opened, output=OutputKeeper())
            result = self._runner.run(self.place.run(request))
            assert result.code == 0, result.output.text

        return timed(once)

    def docker(self, command: str, *, opened: bool = False) -> Subject:
        def once() -> None:
            line = [*self._line("--rm", opened=opened), "-c", command]
            with subprocess.Popen(line, env=self._engine.env, stdout=subprocess.PIPE, bufsize=0) as process:
                assert process.stdout is not None
                while process.stdout.read(1 << 16):
                    pass
            assert process.returncode == 0

        return timed(once)

    def stop(self) -> float:
        async def once() -> float:
            said = asyncio.Event()
            loop = asyncio.get_running_loop()
            keeper = OutputKeeper(on_text=lambda stream, text: loop.call_soon_threadsafe(said.set) and None)
            request = RunRequest(command="echo on; sleep 1000", folder=self._folder, output=keeper)
            running = loop.create_task(self.place.run(request))
            await said.wait()
            began = time.perf_counter()
            running.cancel()
            with pytest.raises(Stopped) as stopped:
                await running
            seconds = time.perf_counter() - began
            assert stopped.value.sure
            return seconds

        return self._runner.run(once())

    def docker_stop(self) -> float:
        line = [*self._line("--detach", opened=False), "-c", "sleep 1000"]
        box = subprocess.run(line, env=self._engine.env, capture_output=True, text=True, check=True).stdout.strip()
        began = time.perf_counter()
        subprocess.run(["docker", "rm", "--force", box], env=self._engine.env, capture_output=True, check=True)
        return time.perf_counter() - began

    def _line(self, how: str, *, opened: bool) -> list[str]:
        """``docker run`` with every flag of the seal."""
        folder = str(self._folder)
        line = [
            "docker",
            "run",
            how,
            "--cap-drop",
            "ALL",
            "--security-opt",
            "no-new-privileges",
            "--read-only",
            "--init",
        ]
        line += ["--ipc", "private", "--log-driver", "none", "--no-healthcheck", "--stop-signal", "SIGKILL"]
        line += ["--tmpfs", f"/tmp:rw,exec,nosuid,nodev,size={TMP_BYTES},mode=1777"]
        line += ["--memory", str(MEMORY), "--memory-swap", str(MEMORY), "--pids-limit", str(PIDS)]
        line += ["--cpus", str(min(2, os.cpu_count() or 1)), "--ulimit", "core=0", "--ulimit", f"nofile={OPEN_FILES}"]
        line += ["--user", f"{os.getuid()}:{os.getgid()}", "--env", "HOME=/tmp/home", "--env", "LANG=C.UTF-8"]
        line += ["--label", "conch.bench=1", "--workdir", folder]
        line += ["--mount", f"type=bind,source={folder},target={folder},bind-propagation=rprivate"]
        if not opened:
            git = f"{folder}/.git"
            line += ["--network", "none"]
            line += ["--mount", f"type=bind,source={git},target={git},readonly,bind-propagation=rprivate"]
        return [*line, "--entrypoint", "/bin/sh", self._engine.image]


if __name__ == "__main__":
    sys.exit(main())
