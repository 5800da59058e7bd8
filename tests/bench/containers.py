"""What a command in a container costs: ``python -m tests.bench.containers [--engine podman] [--json] [--raw FILE]``.

On a real engine of its own, each as a ratio to ``docker run --rm`` with the same flags by the command line, in the same
run and in turns (``--engine podman``: a rootless Podman of an ordinary user, and ``podman run --rm``):

- *spare*: one command with a spare ready, as people have it: through the command tool, in a repository of 10,000
  files, with all that is looked at and proven before and after.
- *train*: 24 commands, 0.3 s apart. *back_to_back*: 24 without a pause.
- *cold*: no spare.
- *stop*: from Stop to every process dead and the box gone, against ``docker kill`` of such a box.
- *output*: 100 MB, against a ``docker run --rm`` with no log, emptied into nothing; and what it takes of memory.
- and the memory that a waiting spare takes (each of four: the share of what they have in common, PSS).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from app.changes.recorder import Recorder
from app.tools.command import Command, Setting
from app.tools.command import run as run_tool
from tests.bench.common import Bar, Rounds, Samples, parser_for, ratio, report, take_turns, timed
from tests.real.engines import dockerd as dockers
from tests.real.engines import person as persons
from tests.real.engines import podman as podmans
from tests.real.engines.needs import need
from tests.workplaces.looking import until
from workplaces.container.box import HOME, OPEN_FILES, PIDS, TMP_BYTES, Options
from workplaces.container.place import Container
from workplaces.container.spares import SpareRules
from workplaces.output import OutputKeeper
from workplaces.place import RunRequest, RunResult, Stopped

MOST = {"spare": 0.03, "train": 0.03, "back_to_back": 0.5, "cold": 1.05, "stop": 1.0, "output": 1.0}
MOST_OUTPUT_MB = 40.0
MOST_SPARE_MB = 6.0
TRAIN, PAUSE, FILES = 24, 0.3, 10_000
_SIZE = 100 * 1024 * 1024
_QUIET = 0.1  # seconds for the engine to tidy up after the other subject's box, as between two commands of a chat
_CHAT = "bench"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_for(rounds=25, about=__doc__ or "")
    parser.add_argument("--engine", choices=["docker", "podman"], default="docker")
    parser.add_argument("--reached", help=argparse.SUPPRESS)  # the image, when DOCKER_HOST names the engine already
    parser.add_argument("cases", nargs="*", metavar="case", help=f"only these: {', '.join(MOST)}")
    given = parser.parse_args(arguments)
    if given.reached:
        return measure(given, given.reached)
    try:
        if given.engine == "docker":
            need("docker", *dockers.PROGRAMS, root=True)
        else:
            need(*podmans.ROOTLESS_PROGRAMS, root=True)
    except (pytest.skip.Exception, pytest.fail.Exception) as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    with ExitStack() as held:
        if given.engine == "docker":
            docker = held.enter_context(dockers.shared())
            os.environ.update(docker.env)
            return measure(given, docker.image)
        person = held.enter_context(persons.made())
        podman = held.enter_context(podmans.rootless_podman(person))
        words = list(sys.argv[1:] if arguments is None else arguments)
        raw = str(person.home / "raw.json") if given.raw else ""
        words += ["--reached", podman.image] + (["--raw", raw] if raw else [])
        line = person.argv(sys.executable, "-m", "tests.bench.containers", *words)
        env = {**podman.env, "HOME": str(person.home), "PYTHONPATH": str(persons.CHECKOUT)}
        env |= {"PATH": os.environ["PATH"], "TMPDIR": str(person.folder("tmp")), "PYTHONDONTWRITEBYTECODE": "1"}
        code = subprocess.run(line, env=env, cwd=person.home, check=False).returncode
        if raw:
            Path(given.raw).write_bytes(Path(raw).read_bytes())
        return code


def measure(given: argparse.Namespace, image: str) -> int:
    """The table, on the engine that the environment names."""
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as scratch, asyncio.Runner() as runner:
        bench = Bench(given.engine, image, Path(scratch), runner)
        wanted = given.cases or list(MOST)
        rounds: dict[str, Samples] = {}
        bars: list[Bar] = []
        try:
            for name in wanted:
                measured = getattr(bench, name)(given.rounds)
                rounds.update(measured)
                bars.append(Bar(name, ratio(measured, name, next(key for key in measured if key != name)), MOST[name]))
            facts = {"image": image, "engine": bench.name}
            if "output" in wanted:
                bars.append(Bar("output, memory above idle", bench.output_memory(), MOST_OUTPUT_MB, "MB"))
            if "spare" in wanted and (memory := bench.spare_memory()):
                bars.append(Bar("memory of a waiting spare", memory, MOST_SPARE_MB, "MB"))
        finally:
            bench.close()
    for bar in bars:
        if bar.name in rounds:
            print(f"  {bar.name}: {bar.value:.4f} of {given.engine}, p95 to its median {p95(rounds, bar.name):.4f}")
    return report("containers", rounds, bars, given, facts=facts)


def p95(rounds: Rounds, name: str) -> float:
    """The worst twentieth against the base's middle: how bad a bad moment is."""
    names = list(rounds)
    return rounds[name].p95 / rounds[names[names.index(name) + 1]].median


class Bench:
    """The same box, by Conch and by the command line."""

    def __init__(self, cli: str, image: str, scratch: Path, runner: asyncio.Runner) -> None:
        self.name = ""
        self._cli = cli
        self._image = image
        self._runner = runner
        self._with = Container(scratch / "conch", image=lambda: image)
        self._without = Container(scratch / "conch", image=lambda: image, spares=SpareRules(most=lambda: 0))
        self._folder = scratch / "work"
        _fill(self._folder)
        self._spill = scratch / "spill"
        self._changes = Recorder()
        self._changes.prepare(self._folder)

    def close(self) -> None:
        for place in (self._with, self._without):
            self._runner.run(place.close())

    # Each case: Conch under its own name, then what it is compared with.

    def spare(self, rounds: int) -> Rounds:
        self._warm()
        subjects = {"spare": self._spare, f"{self._cli} run": timed(lambda: self._run("true"))}
        return take_turns(subjects, rounds=rounds, warm_up=3)

    def cold(self, rounds: int) -> Rounds:
        def once() -> None:
            assert self._one(self._without, "true").proof.details["box"] == "made for it"
            self._settle()

        def seconds() -> float:
            began = time.perf_counter()
            self._one(self._without, "true")
            took = time.perf_counter() - began
            self._settle()
            return took

        once()
        return take_turns({"cold": seconds, f"{self._cli} run, cold": timed(lambda: self._run("true"))}, rounds=rounds)

    def train(self, rounds: int) -> Rounds:
        return self._trains("train", PAUSE)

    def back_to_back(self, rounds: int) -> Rounds:
        return self._trains("back_to_back", 0.0)

    def _trains(self, name: str, pause: float) -> Rounds:
        """What each command takes. Without a pause it is the whole train that counts, so the mean is given for each."""
        conch: list[float] = []
        base: list[float] = []
        for _ in range(2):
            run = timed(lambda: self._run("true"))
            for subject, taken in ((lambda: self._tool("true"), conch), (run, base)):
                self._warm()
                times = []
                for _ in range(TRAIN):
                    times.append(subject())
                    time.sleep(0) if not pause else self._runner.run(asyncio.sleep(pause))
                taken += times if pause else [sum(times) / len(times)]
        return {name: Samples(tuple(conch)), f"{self._cli} run, {name}": Samples(tuple(base))}

    def stop(self, rounds: int) -> Rounds:
        async def once() -> float:
            said = asyncio.Event()
            loop = asyncio.get_running_loop()
            keeper = OutputKeeper(on_text=lambda stream, text: loop.call_soon_threadsafe(said.set) and None)
            request = RunRequest(command="echo on; sleep 1000", folder=self._folder, output=keeper)
            running = loop.create_task(self._without.run(request))
            await said.wait()
            began = time.perf_counter()
            running.cancel()
            with pytest.raises(Stopped) as stopped:
                await running
            seconds = time.perf_counter() - began
            assert stopped.value.sure
            return seconds

        def kill() -> float:
            line = [*self._line("--detach"), "-c", "sleep 1000"]
            box = subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
            began = time.perf_counter()
            subprocess.run([self._cli, "kill", box], capture_output=True, check=True)
            seconds = time.perf_counter() - began
            subprocess.run([self._cli, "rm", "--force", box], capture_output=True, check=True)
            return seconds

        return take_turns({"stop": lambda: self._runner.run(once()), f"{self._cli} kill": kill}, rounds=rounds)

    def output(self, rounds: int) -> Rounds:
        line = f"head -c {_SIZE} /dev/zero"

        def conch() -> float:
            began = time.perf_counter()
            assert self._one(self._without, line).output.size == _SIZE
            took = time.perf_counter() - began
            self._settle()  # the box goes behind: it would take from whoever comes next
            return took

        return take_turns({"output": conch, f"{self._cli} run, output": timed(lambda: self._run(line))}, rounds=rounds)

    def output_memory(self) -> float:
        """The most that 100 MB of output take above what was taken before, in MB."""
        self._one(self._without, "head -c 1000000 /dev/zero")
        self._settle()
        process, over = psutil.Process(), threading.Event()
        idle = most = process.memory_info().rss

        def look() -> None:
            nonlocal most
            while not over.wait(0.005):
                most = max(most, process.memory_info().rss)

        looking = threading.Thread(target=look)
        looking.start()
        try:
            self._one(self._without, f"yes 0123456789012345678901234567890123456789 | head -c {_SIZE}")
        finally:
            over.set()
            looking.join()
        return (most - idle) / 1e6

    def spare_memory(self) -> float:
        """What each of four waiting spares takes, in MB: the engine's keeper of the box, its init and its shell."""
        self._with._spares.drop()
        for chat in "abcd":
            self._one(self._with, "true", chat=chat)
        self._settle(4)
        time.sleep(10 * _QUIET)  # what the engine started to make and remove boxes has ended then
        chats = self._with._spares._chats.values()
        boxes = [spare.life.box for chat in chats for spare in chat.spares]
        own = [process for process in psutil.process_iter() if any(box in _words(process) for box in boxes)]
        tree = {child.pid: child for process in own for child in (process, *process.children(recursive=True))}
        try:
            return sum(process.memory_full_info().pss for process in tree.values()) / 1e6 / len(boxes)
        except psutil.AccessDenied:
            return 0.0

    def _spare(self) -> float:
        self._warm()
        time.sleep(_QUIET)
        return self._tool("true")

    def _warm(self) -> None:
        """Until a spare waits, and nothing is being made or taken away."""
        if not self._with._spares.count():
            self._one(self._with, "true", chat=_CHAT)
        self._settle()
        assert self._with._spares.count()

    def _settle(self, spares: int = 1) -> None:
        async def settled() -> None:
            if spares > 1 or self._with._spares.count() or self._with._spares.is_out(_CHAT):
                enough = lambda: self._with._spares.count() >= spares and self._with._spares.idle  # noqa: E731
                await until(enough, 20, "spares wait")
            for place in (self._with, self._without):
                await until(lambda place=place: place._going.wait(0), 20, "boxes go")

        self._runner.run(settled())

    def _one(self, place: Container, command: str, *, chat: str = "") -> RunResult:
        request = RunRequest(command=command, folder=self._folder, chat=chat, output=OutputKeeper())
        result = self._runner.run(place.run(request))
        assert result.code == 0, result.output.text
        self.name = result.proof.details["engine"]
        return result

    def _tool(self, command: str) -> float:
        """As a model's call runs it, on a loop that runs already, with what it changed made out behind it. Gives the
        seconds to its result."""

        async def once() -> float:
            began = time.perf_counter()
            setting = Setting(chat=_CHAT, folder=self._folder, spill=self._spill)
            none: Callable[[object], None] = lambda event: None  # noqa: E731
            going = self._changes.begin(self._folder)
            ended = await run_tool(
                self._with, Command(text=command), setting, step="s", open=False, put=none, show=none
            )
            took = time.perf_counter() - began
            assert ended.outcome == "ok", ended
            assert (await going.ended()) is not None
            return took

        return self._runner.run(once())

    def _run(self, command: str) -> None:
        line = [*self._line("--rm"), "-c", command]
        with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0) as process:
            assert process.stdout is not None
            while process.stdout.read(1 << 16):
                pass
        assert process.returncode == 0

    def _line(self, how: str) -> list[str]:
        """``docker run`` with every flag of the seal."""
        folder = str(self._folder)
        git = f"{folder}/.git"
        line = [self._cli, "run", how, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"]
        line += ["--init", "--log-driver", "none", "--stop-signal", "SIGKILL", "--network", "none"]
        line += ["--tmpfs", f"/tmp:rw,exec,nosuid,nodev,size={TMP_BYTES},mode=1777"]
        memory = str(Options().memory << 30)
        line += ["--memory", memory, "--memory-swap", memory, "--pids-limit", str(PIDS)]
        line += ["--cpus", str(min(2, os.cpu_count() or 1)), "--ulimit", "core=0", "--ulimit", f"nofile={OPEN_FILES}"]
        line += ["--user", f"{os.getuid()}:{os.getgid()}", "--env", f"HOME={HOME}", "--env", "LANG=C.UTF-8"]
        line += ["--label", "conch.bench=1", "--workdir", folder, "--no-healthcheck"]
        line += ["--mount", f"type=bind,source={folder},target={folder},bind-propagation=rprivate"]
        line += ["--mount", f"type=bind,source={git},target={git},readonly,bind-propagation=rprivate"]
        if self._cli == "docker":
            line += ["--ipc", "private"]
        else:
            line += ["--userns", "keep-id", "--read-only-tmpfs=false"]
        return [*line, "--entrypoint", "/bin/sh", self._image]


def _fill(folder: Path) -> None:
    """A repository of 10,000 files."""
    for number in range(FILES):
        file = folder / f"d{number % 100}" / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n" * 20)
    subprocess.run(["git", "-C", str(folder), "init", "--quiet"], check=True)


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


if __name__ == "__main__":
    sys.exit(main())
