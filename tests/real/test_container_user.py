"""A container used by an ordinary user, who is nobody in the image and no one's root."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.real.engines.person import Person
from tests.real.engines.podman import Podman
from workplaces.container.place import Container
from workplaces.place import PlaceUnavailable, RunRequest

RUNNER = """
import asyncio, json, sys
from pathlib import Path
from workplaces.container.place import Container
from workplaces.place import PlaceUnavailable, RunRequest

home, image, folder, opened, protected, *command = sys.argv[1:]

async def main():
    place = Container(Path(home), image=lambda: image)
    asked = RunRequest(
        command=command[0] if len(command) == 1 else tuple(command),
        folder=Path(folder), open=opened == "open", protected=tuple(map(Path, json.loads(protected))),
    )
    try:
        result = await place.run(asked)
    except PlaceUnavailable as error:
        step = error.next_step
        print(json.dumps({"words": error.words, "need": error.need, "command": step.command if step else ""}))
    else:
        kept, user = result.output, result.proof.details["user"]
        print(json.dumps({"code": result.code, "out": kept.out, "err": kept.err, "user": user}))
    await place.close()

asyncio.run(main())
"""


class Theirs:
    """The container, as that person has it."""

    def __init__(self, person: Person, engine: Dockerd | Podman) -> None:
        self.person = person
        self.docker = engine
        self.work = person.folder("work")

    def run(self, *command: str, opened: bool = False, protected: tuple[Path, ...] = ()) -> dict[str, Any]:
        done = self.person.python(
            RUNNER,
            str(self.person.home / "conch"),
            self.docker.image,
            str(self.work),
            "open" if opened else "sealed",
            json.dumps([str(path) for path in protected]),
            *command,
            env={"DOCKER_HOST": self.docker.host},
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@pytest.fixture(params=["docker_host", "rootful_podman", "rootless_podman"])
def theirs(request: pytest.FixtureRequest, ordinary_user: Person) -> Iterator[Theirs]:
    """On each engine here: one of root's that they may use, and a Podman of their own."""
    made = Theirs(ordinary_user, request.getfixturevalue(request.param))
    yield made
    made.docker.clear()
    for left in sorted(made.work.rglob("*"), reverse=True):
        left.rmdir() if left.is_dir() and not left.is_symlink() else left.unlink()


def owner(path: Path) -> tuple[int, int]:
    return path.stat().st_uid, path.stat().st_gid


@pytest.mark.parametrize("opened", [False, True])
def test_what_a_command_makes_is_theirs(theirs: Theirs, opened: bool) -> None:
    person = theirs.person
    assert person.uid not in (0, 1000), "the image knows root and node"
    line = 'id -u; id -g; mkdir d && echo hi > d/f && chmod 640 d/f && ln -s f d/l; echo x > ~/x; echo "$HOME"; cat ~/x'
    answer = theirs.run(line, opened=opened)
    assert answer["out"] == f"{person.uid}\n{person.gid}\n/tmp/home\nx\n"
    assert (answer["code"], answer["user"]) == (0, f"{person.uid}:{person.gid}")
    for path in (theirs.work / "d", theirs.work / "d" / "f"):
        assert owner(path) == (person.uid, person.gid)
    assert (theirs.work / "d" / "f").stat().st_mode & 0o777 == 0o640
    assert theirs.docker.boxes() == []


def test_somebody_without_a_name_can_use_git_node_and_python(theirs: Theirs) -> None:
    line = (
        "git init -q . && git -c user.name=a -c user.email=b@c commit -q --allow-empty -m x && git log --format=%s;"
        "node -e 'console.log(require(\"os\").homedir())';"
        "python3 -c 'import os; print(os.path.expanduser(\"~\"))'; whoami"
    )
    answer = theirs.run(line, opened=True)
    *said, who = f"{answer['out']}{answer['err']}".splitlines()
    assert said == ["x", "/tmp/home", "/tmp/home"]
    # Podman writes them into the box's own list of users: by their number, or by their name when it is their own
    names = (str(theirs.person.uid), theirs.person.name)
    assert who in names if isinstance(theirs.docker, Podman) else "cannot find name for user ID" in who


def test_what_only_they_may_read_is_read_and_what_they_may_not_is_not(theirs: Theirs) -> None:
    mine = theirs.work / "mine"
    mine.write_text("mine\n")
    os.chown(mine, theirs.person.uid, theirs.person.gid)
    mine.chmod(0o600)
    roots = theirs.work / "roots"
    roots.write_text("SECRET")
    roots.chmod(0o600)
    theirs.work.chmod(0o700)
    answer = theirs.run("cat mine; cat roots; chmod 644 roots; chown 0 mine; su -c id; sudo id; cat /etc/shadow")
    assert answer["out"] == "mine\n"
    assert "SECRET" not in answer["err"]
    assert owner(mine) == (theirs.person.uid, theirs.person.gid)
    assert roots.stat().st_mode & 0o777 == 0o600


def test_their_keys_in_the_folder_are_covered(theirs: Theirs) -> None:
    keys = theirs.work / "keys"
    keys.mkdir()
    (keys / "id").write_text("SECRET")
    (theirs.work / "token").write_text("SECRET")
    for path in (keys, keys / "id", theirs.work / "token"):
        os.chown(path, theirs.person.uid, theirs.person.gid)
        path.chmod(0o700 if path.is_dir() else 0o600)
    answer = theirs.run(
        "cat keys/id token; ls -A keys; echo x > token; echo x > keys/y", protected=(keys, theirs.work / "token")
    )
    assert answer["out"] == ""
    assert "SECRET" not in answer["err"]
    assert (theirs.work / "token").read_text() == "SECRET"
    assert [path.name for path in keys.iterdir()] == ["id"]


def test_nothing_is_left_anywhere_but_in_their_folder(theirs: Theirs) -> None:
    theirs.run("true")
    home = theirs.person.home
    conch = sorted(path.name for path in (home / "conch").iterdir())
    assert conch == ["empty", "hosts", "id"]
    assert (home / "conch").stat().st_mode & 0o777 == 0o700
    assert owner(home / "conch" / "id") == (theirs.person.uid, theirs.person.gid)


@pytest.mark.parametrize("theirs", ["docker_host"], indirect=True)
def test_a_docker_they_may_not_use_says_so_and_how_to(theirs: Theirs) -> None:
    mode = theirs.docker.socket.stat().st_mode
    theirs.docker.socket.chmod(0o600)
    try:
        answer = theirs.run("touch PROOF")
    finally:
        theirs.docker.socket.chmod(mode)
    assert "you may not use it" in answer["words"]
    assert str(theirs.docker.socket) in answer["words"]
    assert answer["need"] == "container"
    assert answer["command"] == 'sudo usermod -aG docker "$USER"'
    assert not (theirs.work / "PROOF").exists()


@pytest.mark.parametrize("name", ["docker_host", "rootful_podman"])
async def test_what_roots_command_makes_is_roots(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> None:
    """Root's Conch on an engine of root's; the same folder may hold what is somebody else's."""
    engine = request.getfixturevalue(name)
    work = tmp_path / "work"
    work.mkdir()
    (work / "theirs").write_text("x\n")
    os.chown(work / "theirs", 4242, 4242)
    env = {**os.environ, "DOCKER_HOST": engine.host, "DOCKER_CONFIG": str(engine.home)}
    place = Container(tmp_path / "conch", image=lambda: engine.image, env=env)
    result = await place.run(
        RunRequest(command="id -u; mkdir d; echo x > d/f; echo y >> theirs; cat theirs", folder=work)
    )
    await place.close()
    assert (result.code, result.output.out) == (0, "0\nx\n"), "root in a box has no right over what is not root's"
    assert {owner(work / "d"), owner(work / "d" / "f")} == {(0, 0)}
    assert owner(work / "theirs") == (4242, 4242)


async def test_a_podman_of_somebody_elses_is_refused(rootless_podman: Podman, tmp_path: Path) -> None:
    """Root may use every socket, but what a command made there would be that other user's."""
    env = {**os.environ, "DOCKER_HOST": rootless_podman.host, "DOCKER_CONFIG": str(rootless_podman.home)}
    place = Container(tmp_path / "conch", image=lambda: rootless_podman.image, env=env)
    with pytest.raises(PlaceUnavailable, match="another user's"):
        await place.run(RunRequest(command="touch PROOF", folder=tmp_path))
    await place.close()
    assert not (tmp_path / "PROOF").exists()
    assert rootless_podman.boxes() == []
