"""Real engines for the tests. Each fixture ends its test when the engine cannot run here: see ``engines/needs.py``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.engines import display as displays
from tests.real.engines import dockerd as dockers
from tests.real.engines import images, person
from tests.real.engines import podman as podmans
from tests.real.engines import sshd as sshds
from tests.real.engines.dockerd import Dockerd
from tests.real.engines.needs import missing, program
from tests.real.engines.needs import need as _need
from tests.real.engines.podman import Podman

_DOCKER_FIXTURES = {"dockerd", "fresh_dockerd", "rootful_podman", "rootless_podman"}
_TROUBLE = pytest.StashKey[str]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is real."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.real)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Makes the images before the first test's clock starts: it takes a minute or two, once."""
    wanted = any(_DOCKER_FIXTURES & set(getattr(item, "fixturenames", ())) for item in session.items)
    if not wanted or session.config.option.collectonly or images.ready() or os.geteuid() != 0:
        return
    if all(program(name) for name in dockers.PROGRAMS):
        print("\nMaking the test images (once, a minute or two)…", flush=True)
        try:
            images.storage()
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            session.stash[_TROUBLE] = f"the test images could not be made: {str(error).splitlines()[-1]}"


@pytest.fixture(scope="session")
def need() -> Callable[..., None]:
    """``need("bwrap")``: ends the test when a program is not here. ``root=True``: or when this is not root."""
    return _need


@pytest.fixture(scope="session")
def ordinary_user() -> Iterator[person.Person]:
    """An ordinary user with a HOME of their own; the Docker of ``dockerd`` answers them."""
    _need("useradd", "setpriv", "unshare", root=True)
    with person.made() as somebody:
        yield somebody


@pytest.fixture(scope="session")
def images_made(request: pytest.FixtureRequest) -> None:
    """That the images could be made."""
    _need(*dockers.PROGRAMS, root=True)
    if trouble := request.session.stash.get(_TROUBLE, ""):
        missing(trouble)


@pytest.fixture(scope="session")
def dockerd(ordinary_user: person.Person, images_made: None) -> Iterator[Dockerd]:
    """A real Docker of this run's own. Boxes of one test are gone before the next one that uses ``docker_host``."""
    with dockers.shared(group=str(ordinary_user.gid)) as engine:
        yield engine


@pytest.fixture
def docker_host(dockerd: Dockerd, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dockerd]:
    """``dockerd``, as the one that DOCKER_HOST names for this test; running again and empty of boxes afterwards."""
    monkeypatch.setenv("DOCKER_HOST", dockerd.host)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(dockerd.home))
    yield dockerd
    if not dockerd.running:
        dockerd.start()
    dockerd.clear()
    if not dockerd.has(dockerd.image):
        dockerd.pull(dockerd.image)


@pytest.fixture
def fresh_dockerd(
    tmp_path: Path, ordinary_user: person.Person, images_made: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Dockerd]:
    """A Docker that never held an image, as the one that DOCKER_HOST names."""
    with dockers.fresh(tmp_path, group=str(ordinary_user.gid)) as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
        monkeypatch.setenv("DOCKER_CONFIG", str(engine.home))
        yield engine


@pytest.fixture(scope="session")
def rootful_podman(ordinary_user: person.Person, images_made: None) -> Iterator[Podman]:
    """A real Podman of root's, which answers the ordinary user too."""
    _need(*podmans.PROGRAMS, root=True)
    with podmans.rootful_podman(group=ordinary_user.gid) as engine:
        yield engine


@pytest.fixture(scope="session")
def rootless_podman(ordinary_user: person.Person, images_made: None) -> Iterator[Podman]:
    """A real Podman of the ordinary user's own."""
    _need(*podmans.ROOTLESS_PROGRAMS, root=True)
    with podmans.rootless_podman(ordinary_user) as engine:
        yield engine


@pytest.fixture(scope="session")
def xvfb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[displays.Display]:
    """A display with a mouse and a keyboard (xdotool)."""
    _need("Xvfb", "xdotool", "xwininfo")
    with displays.display(tmp_path_factory.mktemp("xvfb")) as shown:
        yield shown


@pytest.fixture(scope="session")
def machine() -> Iterator[sshds.Sshd]:
    """A machine named build-box, with an OpenSSH server and an ordinary user ``build``."""
    _need(*sshds.PROGRAMS, root=True)
    with sshds.made() as reached:
        yield reached
