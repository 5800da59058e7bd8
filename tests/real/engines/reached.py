"""A Podman that somebody else started, for tests that run as the ordinary user whose it is."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.real.engines import images

if TYPE_CHECKING:
    from tests.real.engines.podman import Kind, Podman

_MARK = "CONCH_TEST_PODMAN"


def env_for(engine: Podman) -> dict[str, str]:
    """The environment with which a run of the tests, as whose it is, finds this engine with ``reached``."""
    wanted = ("CONTAINERS_", "DOCKER_HOST", "XDG_RUNTIME_DIR")
    told = {name: value for name, value in engine.env.items() if name.startswith(wanted)}
    return {**told, _MARK: str(engine.home)}


def reached(env: Mapping[str, str] = os.environ) -> Reached | None:
    """The engine that whoever started this run of the tests said, None when they said none."""
    return Reached(env) if env.get(_MARK) else None


class Reached:
    """What a test asks of a ``Podman``, without starting or ending it."""

    image = images.NODE
    bare = images.BARE
    kind: Kind = "rootless"
    running = True

    def __init__(self, env: Mapping[str, str]) -> None:
        self.host = env["DOCKER_HOST"]
        self.socket = Path(self.host.removeprefix("unix://"))
        self.home = Path(env[_MARK])
        self.runtime_dir = Path(env["XDG_RUNTIME_DIR"])
        self._env = {**env, "HOME": str(self.home)}

    def cli(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        line = ["podman", "--log-level=error", *words]
        env, home = self._env, self.home
        return subprocess.run(line, env=env, cwd=home, check=check, capture_output=True, text=True, timeout=60)

    @contextmanager
    def client(self) -> Iterator[Any]:
        import docker

        client = docker.DockerClient(base_url=self.host, timeout=60)
        try:
            yield client
        finally:
            client.close()

    def boxes(self, **labels: str) -> list[str]:
        wanted = [f"{name.replace('_', '.')}={value}" for name, value in labels.items()]
        with self.client() as client:
            return [box["Id"] for box in client.api.containers(all=True, filters={"label": wanted})]

    def clear(self) -> None:
        with contextlib.suppress(subprocess.SubprocessError):
            self.cli("rm", "--all", "--force", "--time=0", "--volumes")
