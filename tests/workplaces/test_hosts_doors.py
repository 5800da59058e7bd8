"""What an engine is told of a door and of a box behind one, and where there is none. What they do: tests/real."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.workplaces.test_container_podman import ROOTFUL, ROOTLESS
from tests.workplaces.test_container_podman import seen as kept
from workplaces.container.box import BoxAsk, seal
from workplaces.container.contexts import Endpoint, Tls
from workplaces.container.engine import Engine, EngineFacts
from workplaces.container.hosts import HostList, environment
from workplaces.container.hosts_door import DoorAsk, door_body, refuse
from workplaces.container.hosts_doors import read_list
from workplaces.container.image import Image, Reference
from workplaces.container.podman import libpod, not_kept
from workplaces.folder import check_folder
from workplaces.place import PlaceUnavailable

DOOR = "d" * 64


def ask(facts: EngineFacts = ROOTFUL, **changed: Any) -> DoorAsk:
    engine = Engine(Endpoint("unix:///run/docker.sock", "a test"), None, facts)
    image = Image(reference=Reference.parse("node:24"), id="sha256:1", volumes=("/data",))
    made = DoorAsk(engine, image, HostList(("pypi.org",)), "1000:1000", "i", "o")
    return dataclasses.replace(made, **changed)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def box(work: Path, facts: EngineFacts, *, opened: bool, door: str) -> dict[str, Any]:
    made = BoxAsk(
        image="node:24", folder=check_folder(work, ()), open=opened, user="1000:1000", empty=Path("/empty"), door=door
    )
    return seal(made, facts)


def test_a_door_has_no_network_and_nothing_of_this_computer() -> None:
    body = door_body(ask())
    host = body["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["Dns"] == ["127.0.0.1"]
    assert host["CapDrop"] == ["ALL"]
    assert host["ReadonlyRootfs"] is True
    assert host["AutoRemove"] is True
    assert [mount["Type"] for mount in host["Mounts"]] == ["tmpfs"], "over the image's own volume"
    assert body["Env"] == ["LANG=C.UTF-8"]
    assert body["Labels"] == {
        "conch.work": "1", "conch.chat": "", "conch.home": "i", "conch.owner": "o", "conch.door": "1",
    }  # fmt: skip


@pytest.mark.parametrize("facts", [ROOTFUL, ROOTLESS])
def test_an_open_box_shares_its_door_and_a_sealed_one_has_no_network_whatever_is_asked(
    work: Path, facts: EngineFacts
) -> None:
    sealed = box(work, facts, opened=False, door=DOOR)
    assert sealed["HostConfig"]["NetworkMode"] == "none"
    assert not [entry for entry in sealed["Env"] if "proxy" in entry.lower()]
    opened = box(work, facts, opened=True, door=DOOR)
    assert opened["HostConfig"]["NetworkMode"] == f"container:{DOOR}"
    assert set(environment()) <= set(opened["Env"])
    without = box(work, facts, opened=True, door="")
    assert without["HostConfig"]["NetworkMode"] == "default"
    assert not [entry for entry in without["Env"] if "proxy" in entry.lower()]


@pytest.mark.parametrize("facts", [ROOTFUL, ROOTLESS])
def test_podman_is_told_the_same_and_held_to_it(work: Path, facts: EngineFacts) -> None:
    body = box(work, facts, opened=True, door=DOOR)
    spec = libpod(body, facts, "x")
    assert spec["netns"] == {"nsmode": "container", "value": DOOR}
    assert spec["userns"] == (spec["netns"] if facts.rootless else {"nsmode": "host"})
    assert spec["httpproxy"] is False
    said = kept(body, facts)
    said["HostConfig"]["NetworkMode"] = f"container:{DOOR}"
    assert not_kept(body, said, facts) == []
    for other in ("bridge", "slirp4netns", "host", f"container:{'e' * 64}", None):
        said["HostConfig"]["NetworkMode"] = other
        assert not_kept(body, said, facts) == ["the network of a door"]
    door = libpod(door_body(ask(facts)), facts, "x")
    assert door["netns"] == {"nsmode": "none"}
    assert door["userns"] == {"nsmode": "keep-id" if facts.rootless else "host"}


def test_where_a_door_was_not_seen_to_hold_there_is_none(tmp_path: Path) -> None:
    refuse(ask())
    refuse(ask(runtime="crun"))
    with pytest.raises(PlaceUnavailable, match="runtime runsc"):
        refuse(ask(runtime="runsc"))
    far = Engine(Endpoint("tcp://127.0.0.1:2376", "a test", tls=Tls(tmp_path)), None, ROOTFUL)
    with pytest.raises(PlaceUnavailable, match="TLS"):
        refuse(ask(engine=far))


def test_a_list_holds_for_open_commands_alone_and_is_never_taken_for_none() -> None:
    assert read_list("pypi.org", open=False) is None
    assert read_list("https://typo", open=False) is None
    assert read_list(" ", open=True) is None
    assert read_list("pypi.org", open=True) == HostList(("pypi.org",))
    with pytest.raises(PlaceUnavailable):
        read_list("https://typo", open=True)
