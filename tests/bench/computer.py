"""What this computer's box costs a command: ``python -m tests.bench.computer [--json] [--rounds N]``.

- *sealed* and *open*: ``true`` through Conch with all that goes with it (what is there to hide is looked for anew, the
  proof read back, the tree seen dead), against plain ``bwrap … true`` with the same options, and against the smallest
  box that has the same namespaces and hides nothing. Held by the quickest tenth of each.
- *stream*: 200 MB through Conch against the same pipe emptied by ``subprocess`` into nothing.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.common import Bar, Rounds, Samples, Subject, parse, report, take_turns, timed
from workplaces.computer.place import Computer
from workplaces.output import OutputKeeper
from workplaces.place import RunRequest
from workplaces.seal.ability import NoBox, probe

MOST_SEALED, MOST_SMALLEST, MOST_OPEN, MOST_STREAM = 1.5, 1.8, 1.5, 3.0
_SIZE = 200 * 1024 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments, rounds=200, about=__doc__ or "")
    box = probe()
    if isinstance(box, NoBox):
        sys.stderr.write(f"{box.words} {box.details}\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as scratch, asyncio.Runner() as runner:
        folder = Path(scratch, "work")
        folder.mkdir()
        place = Computer(Path(scratch, "places"))

        def run(command: str | tuple[str, ...], *, opened: bool = False) -> Subject:
            def once() -> None:
                asked = RunRequest(command=command, folder=folder, open=opened, output=OutputKeeper())
                result = runner.run(place.run(asked))
                assert result.code == 0, result.output.text

            return timed(once)

        request = RunRequest(command="true", folder=folder)
        same = box.options(place.policy(request), place.empty())
        plain = [box.path, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        plain += ["--bind", str(folder), str(folder), "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        plain += ["--cap-drop", "ALL"]
        plain += ["--new-session", "--die-with-parent", "--chdir", str(folder)]
        starts = take_turns(
            {
                "sealed": run("true"),
                "open": run("true", opened=True),
                "bwrap … true": timed(lambda: _plain([box.path, *same, "--", "true"])),
                "smallest box": timed(lambda: _plain([*plain, "--unshare-net", "--", "true"])),
            },
            rounds=given.rounds,
            warm_up=5,
        )
        streams = take_turns(
            {
                "stream": run(f"head -c {_SIZE} /dev/zero"),
                "bwrap stream": timed(lambda: _empty([*plain, "--", "head", "-c", str(_SIZE), "/dev/zero"])),
            },
            rounds=max(3, given.rounds // 16),
        )
    bars = [
        Bar("a sealed command", _times(starts, "sealed", "bwrap … true"), MOST_SEALED),
        Bar("a sealed command, to the smallest box", _times(starts, "sealed", "smallest box"), MOST_SMALLEST),
        Bar("an open command", _times(starts, "open", "smallest box"), MOST_OPEN),
        Bar("200 MB of output", _times(streams, "stream", "bwrap stream"), MOST_STREAM),
    ]
    return report("computer", {**starts, **streams}, bars, given, facts={"seal": box.name})


def _times(rounds: Rounds, name: str, base: str) -> float:
    """How many times the base it takes, by the tenth of each that was quickest: a busy machine only adds to both, and
    the more so the more often something waits for its turn."""
    return _tenth(rounds[name]) / _tenth(rounds[base])


def _tenth(samples: Samples) -> float:
    return sorted(samples.values)[len(samples.values) // 10]


def _plain(argv: Sequence[str]) -> None:
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def _empty(argv: Sequence[str]) -> None:
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        while process.stdout.read(1 << 16):
            pass
    assert process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
