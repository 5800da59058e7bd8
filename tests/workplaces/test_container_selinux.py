"""What engines are told where SELinux is enforcing. It is not on this computer: none of it was run with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.workplaces.contract import git, repository
from tests.workplaces.test_container_box import EMPTY
from workplaces.container import selinux
from workplaces.container.asking import docker_info, read_facts
from workplaces.container.box import BoxAsk, seal
from workplaces.container.contexts import Endpoint
from workplaces.container.engine import EngineFacts
from workplaces.container.podman import libpod
from workplaces.folder import check_folder
from workplaces.place import PlaceUnavailable

FACTS = EngineFacts(version="1", selinux=True)


def body(work: Path, facts: EngineFacts = FACTS, **how: Any) -> dict[str, Any]:
    return seal(BoxAsk(image="i:1", folder=check_folder(work), open=False, user="7:8", empty=EMPTY, **how), facts)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A worktree, with a token in it, whose repository is elsewhere."""
    (tmp_path / "main").mkdir()
    repository(tmp_path / "main")
    git(tmp_path / "main", "worktree", "add", "-q", str(tmp_path / "tree"))
    return tmp_path / "tree"


def test_docker_is_told_in_its_older_words_and_of_the_labelled_alone(tree: Path) -> None:
    told = selinux.as_binds(body(tree))
    data = tree.parent / "main" / ".git"
    assert told["HostConfig"]["Binds"] == [f"{tree}:{tree}:rw,rprivate,Z", f"{data}:{data}:ro,rprivate,z"]
    rest = {mount["Target"]: mount["ReadOnly"] for mount in told["HostConfig"]["Mounts"]}
    assert rest == {f"{tree}/.git": True}


def test_podman_is_told_by_a_mounts_options(tree: Path) -> None:
    told = libpod(body(tree), replace(FACTS, kind="podman"), "name")
    options = {mount["destination"]: mount["options"] for mount in told["mounts"]}
    assert options[str(tree)] == ["rbind", "rw", "rprivate", "Z"]
    assert options[str(tree.parent / "main" / ".git")] == ["rbind", "ro", "rprivate", "z"]
    assert options[f"{tree}/.git"] == ["rbind", "ro", "rprivate"]
    assert told["selinux_opts"] == [selinux.label(check_folder(tree))[0].removeprefix("label=")]


def test_the_label_is_the_folders_own_and_the_same_for_each_box(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    labels = [body(tmp_path / name)["HostConfig"]["SecurityOpt"] for name in ("one", "one", "two")]
    assert labels[0] == labels[1] != labels[2]
    for first, second in (label[1].removeprefix("label=level:s0:").split(",") for label in labels):
        assert 0 <= int(first[1:]) < int(second[1:]) < 1024


def test_without_selinux_nothing_is_told_of_it(tree: Path) -> None:
    made = body(tree, EngineFacts(version="1"))
    assert made["HostConfig"]["SecurityOpt"] == ["no-new-privileges"]
    assert selinux.as_binds(made) == made
    assert libpod(made, EngineFacts(kind="podman"), "name")["selinux_opts"] == []


def test_a_name_that_the_older_words_cannot_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    with pytest.raises(PlaceUnavailable, match="SELinux"):
        selinux.as_binds(body(tmp_path / "a:b"))
    assert libpod(body(tmp_path / "a:b"), FACTS, "name")["mounts"], "Podman has words for it"


@pytest.mark.parametrize(("enforce", "told"), [("1", True), ("0", False), (None, False)])
def test_it_is_asked_of_the_engine_and_of_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enforce: str | None, told: bool
) -> None:
    monkeypatch.setattr(selinux, "_ENFORCE", tmp_path / "enforce")
    if enforce is not None:
        (tmp_path / "enforce").write_text(enforce)
    info = {"NCPU": 1, "MemTotal": 1, "SecurityOptions": ["name=seccomp,profile=default", "name=selinux"]}
    there = Endpoint("unix:///x", "Docker")
    assert read_facts(there, {"Version": "1"}, info, "1.43").selinux is told
    assert not read_facts(there, {"Version": "1"}, {**info, "SecurityOptions": []}, "1.43").selinux
    host = {
        **{"os": "linux", "kernel": "6", "cpus": 1, "memTotal": 1, "cgroupVersion": "v2"},
        **{"distribution": {"distribution": "fedora"}},
        **{"security": {"seccompEnabled": True, "selinuxEnabled": True, "rootless": True}},
    }
    assert docker_info({"host": host})["SecurityOptions"] == ["name=seccomp", "name=selinux"]
