"""Podman's words for a box: what it is told, what it must have kept, and what it says, in Docker's shape."""

from __future__ import annotations

import copy
import json
import platform
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workplaces.engine_double import INFO, VERSION, EngineDouble
from workplaces.container import limits, machine
from workplaces.container.asking import docker_info, read_facts, try_engine
from workplaces.container.box import OPEN_FILES, PIDS, BoxAsk, Options, seal
from workplaces.container.contexts import Endpoint
from workplaces.container.engine import Engine, EngineFacts
from workplaces.container.limits import in_words, processes
from workplaces.container.podman import PodmanEngine, as_docker, libpod, not_kept
from workplaces.container.refusals import Unusable
from workplaces.folder import check_folder

ROOTFUL = EngineFacts(name="Podman", kind="podman", cpus=8, kernel="6.1.0")
ROOTLESS = EngineFacts(name="Podman", kind="podman", cpus=8, kernel="6.1.0", rootless=True, limits=())
PODMAN = {
    "Version": "4.9.3",
    "ApiVersion": "1.41",
    "Components": [{"Name": "Podman Engine", "Version": "4.9.3"}, {"Name": "Conmon"}],
}
ENDPOINT = Endpoint("unix:///x", "a test")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / 'work, "odd"\n'
    (folder / ".git").mkdir(parents=True)
    (folder / "keys").mkdir()
    return folder


def asked(work: Path, facts: EngineFacts, *, opened: bool = False, user: str = "1000:1000") -> dict[str, Any]:
    return seal(
        BoxAsk(
            image="node:24",
            folder=check_folder(work, (work / "keys",)),
            open=opened,
            user=user,
            empty=Path("/empty"),
            volumes=("/data",),
            installation="i",
            owner="o",
        ),
        facts,
    )


def seen(body: dict[str, Any], facts: EngineFacts) -> dict[str, Any]:
    """What a Podman that kept all of it says: the shape is a real one's (4.3.1)."""
    spec = libpod(body, facts, "x")
    binds = [mount for mount in spec["mounts"] if mount["type"] == "bind"]
    return {
        "Id": "1" * 64,
        "Image": "2" * 64,
        "State": {"Status": "exited", "Running": False, "ExitCode": 3, "OOMKilled": False},
        "EffectiveCaps": None,
        "BoundingCaps": None,
        "Mounts": [
            {
                "Type": "bind",
                "Source": mount["source"],
                "Destination": mount["destination"],
                "RW": "rw" in mount["options"],
            }
            for mount in binds
        ],
        "NetworkSettings": {"SandboxKey": ""},
        "Config": {"User": body["User"], "WorkingDir": body["WorkingDir"]},
        "HostConfig": {
            "CapAdd": [],
            "CapDrop": ["CAP_CHOWN", "CAP_KILL"],
            "NetworkMode": body["HostConfig"]["NetworkMode"],
            "IpcMode": "shareable",
            "PidMode": "private",
            "Privileged": False,
            "ReadonlyRootfs": True,
            "SecurityOpt": ["no-new-privileges"],
            "IDMappings": {"UidMap": ["0:1:1000"]} if facts.rootless else None,
            "Tmpfs": {mount["destination"]: "rw" for mount in spec["mounts"] if mount["type"] == "tmpfs"},
            "Memory": spec["resource_limits"].get("memory", {}).get("limit", 0),
            "PidsLimit": spec["resource_limits"].get("pids", {}).get("limit", 0),
            "CpuPeriod": 100_000,
            "CpuQuota": spec["resource_limits"].get("cpu", {}).get("quota", 0),
            "NanoCpus": 0,
            "Ulimits": [
                {"Name": f"RLIMIT_{limit['type'].upper()}", "Soft": limit["soft"], "Hard": limit["hard"]}
                for limit in spec["r_limits"]
            ],
        },
    }


def test_the_seal_is_told_whole(work: Path) -> None:
    body = asked(work, ROOTFUL)
    spec = libpod(body, ROOTFUL, "conch-1")
    assert (spec["name"], spec["image"], spec["user"]) == ("conch-1", "docker.io/library/node:24", "1000:1000")
    assert (spec["entrypoint"], spec["command"]) == (body["Entrypoint"], body["Cmd"])
    assert spec["env"] == {"HOME": "/tmp/home", "LANG": "C.UTF-8"}
    assert (spec["httpproxy"], spec["image_volume_mode"], spec["terminal"]) == (False, "ignore", False)
    assert (spec["cap_drop"], spec["no_new_privileges"], spec["read_only_filesystem"]) == (["ALL"], True, True)
    assert (spec["netns"], spec["ipcns"], spec["userns"]) == (
        {"nsmode": "none"},
        {"nsmode": "private"},
        {"nsmode": "host"},
    )
    assert spec["labels"] == body["Labels"]
    assert spec["log_configuration"] == {"driver": "none"}
    assert (spec["init"], spec["remove"], spec["stop_signal"]) == (True, False, 9)
    assert spec["resource_limits"] == {
        "memory": {"limit": Options().memory << 30, "swap": Options().memory << 30},
        "pids": {"limit": PIDS},
        "cpu": {"period": 100_000, "quota": 200_000},
    }
    assert libpod(asked(work, ROOTFUL, opened=True), ROOTFUL, "x")["netns"] == {"nsmode": "default"}


def test_every_mount_is_told_as_it_is_with_any_name(work: Path) -> None:
    spec = libpod(asked(work, ROOTFUL), ROOTFUL, "x")
    mounts = {mount["destination"]: mount for mount in spec["mounts"]}
    assert mounts[str(work)]["source"] == str(work)
    assert set(mounts[str(work)]["options"]) == {"rbind", "rw", "rprivate"}
    assert "ro" in mounts[str(work / ".git")]["options"]
    assert mounts[str(work / "keys")]["type"] == mounts["/tmp"]["type"] == mounts["/data"]["type"] == "tmpfs"
    assert "ro" in mounts[str(work / "keys")]["options"]
    assert {"exec", "nosuid", "nodev", "mode=1777"} <= set(mounts["/tmp"]["options"])
    for mount in spec["mounts"]:
        assert ("notmpcopyup" in mount["options"]) is (mount["type"] == "tmpfs"), "keys would be copied into the cover"


def test_a_rootless_one_keeps_the_persons_numbers(work: Path) -> None:
    spec = libpod(asked(work, ROOTLESS), ROOTLESS, "x")
    assert spec["userns"] == {"nsmode": "keep-id"}
    assert spec["resource_limits"] == {}
    assert "user" not in libpod(asked(work, ROOTLESS, user=""), ROOTLESS, "x")


def test_limits_never_exceed_what_the_person_may_have(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hard = {resource.RLIMIT_NOFILE: 4096, resource.RLIMIT_NPROC: 100, resource.RLIMIT_CORE: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1, hard[which]))
    told = libpod(asked(work, ROOTLESS), ROOTLESS, "x")["r_limits"]
    assert {limit["type"]: (limit["soft"], limit["hard"]) for limit in told} == {
        "core": (0, 0),
        "nofile": (4096, 4096),
        "nproc": (100, 100),
    }


@pytest.mark.parametrize(
    ("facts", "most"),
    [
        (ROOTLESS, PIDS),
        (ROOTFUL, 1 << 15),
        # an older kernel counts all that the person has running, so the limit would end what is none of its business
        (EngineFacts(kind="podman", rootless=True, limits=(), kernel="5.10.0-28-amd64"), 1 << 15),
        (EngineFacts(kind="podman", rootless=True, limits=("pids",), kernel="6.1.0"), 1 << 15),
    ],
)
def test_processes_are_counted_by_the_kernel_only_where_that_is_the_boxs_own_count(
    work: Path, facts: EngineFacts, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1, resource.RLIM_INFINITY))
    told = {limit["type"]: limit["hard"] for limit in libpod(asked(work, facts), facts, "x")["r_limits"]}
    assert told == {"core": 0, "nofile": OPEN_FILES, "nproc": most}


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("node", "docker.io/library/node"),
        ("me/node:1", "docker.io/me/node:1"),
        ("docker.io/library/node:24", "docker.io/library/node:24"),
        ("localhost/x", "localhost/x"),
        ("127.0.0.1:5000/x", "127.0.0.1:5000/x"),
        ("ghcr.io/a/b@sha256:1", "ghcr.io/a/b@sha256:1"),
    ],
)
def test_an_image_is_named_with_its_registry(work: Path, name: str, full: str) -> None:
    assert libpod({**asked(work, ROOTFUL), "Image": name}, ROOTFUL, "x")["image"] == full


@pytest.mark.parametrize("facts", [ROOTFUL, ROOTLESS])
@pytest.mark.parametrize("opened", [False, True])
def test_what_is_kept_whole_is_found_so(work: Path, facts: EngineFacts, opened: bool) -> None:
    body = asked(work, facts, opened=opened)
    assert not_kept(body, seen(body, facts), facts) == []


SPOILED: list[tuple[str, tuple[str, ...], Any]] = [
    ("capabilities", ("EffectiveCaps",), ["CAP_CHOWN"]),
    ("capabilities", ("BoundingCaps",), ["CAP_CHOWN"]),
    ("no new privileges", ("HostConfig", "SecurityOpt"), []),
    ("no new privileges", ("HostConfig", "SecurityOpt"), None),
    ("a read-only root", ("HostConfig", "ReadonlyRootfs"), False),
    ("no network", ("HostConfig", "NetworkMode"), "slirp4netns"),
    ("the user", ("Config", "User"), ""),
    ("namespaces", ("HostConfig", "PidMode"), "host"),
    ("namespaces", ("HostConfig", "IpcMode"), "host"),
    ("no privileges", ("HostConfig", "Privileged"), True),
    ("the mounts", ("Mounts",), []),
    ("the mounts", ("HostConfig", "Tmpfs"), {}),
    ("no other mounts", ("Mounts",), [{"Type": "bind", "Source": "/", "Destination": "/host", "RW": True}]),
    ("memory", ("HostConfig", "Memory"), 0),
    ("processes", ("HostConfig", "PidsLimit"), 2048),
    ("limits", ("HostConfig", "Ulimits"), []),
    ("limits", ("HostConfig", "Ulimits"), 5),
    ("the person's own numbers", ("HostConfig", "IDMappings"), {"UidMap": ["0:1:9"]}),
    ("no privileges", ("HostConfig",), {}),
]


@pytest.mark.parametrize(("what", "where", "value"), SPOILED)
def test_what_is_not_kept_is_named(work: Path, what: str, where: tuple[str, ...], value: Any) -> None:
    body = asked(work, ROOTFUL)
    told: Any = copy.deepcopy(seen(body, ROOTFUL))
    at = told
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = value
    assert what in not_kept(body, told, ROOTFUL)


def test_a_git_that_could_be_written_is_named(work: Path) -> None:
    body = asked(work, ROOTFUL)
    told = seen(body, ROOTFUL)
    for mount in told["Mounts"]:
        mount["RW"] = True
    assert not_kept(body, told, ROOTFUL) == ["the mounts"]


def test_a_rootless_one_without_a_mapping_is_named(work: Path) -> None:
    body = asked(work, ROOTLESS)
    told = seen(body, ROOTLESS)
    told["HostConfig"]["IDMappings"] = None
    assert not_kept(body, told, ROOTLESS) == ["the person's own numbers"]


def test_what_it_says_is_in_dockers_shape(work: Path) -> None:
    said = as_docker(seen(asked(work, ROOTFUL), ROOTFUL))
    assert said["Image"] == "sha256:" + "2" * 64
    assert (said["State"]["ExitCode"], said["State"]["Running"]) == (3, False)
    assert (said["HostConfig"]["CapDrop"], said["HostConfig"]["CapAdd"]) == (["ALL"], [])
    assert said["HostConfig"]["NanoCpus"] == 2_000_000_000
    assert list(said["NetworkSettings"]["Networks"]) == ["none"]
    some = as_docker({**seen(asked(work, ROOTFUL), ROOTFUL), "BoundingCaps": ["CAP_CHOWN"]})
    assert some["HostConfig"]["CapDrop"] == []
    assert as_docker({})["Mounts"] == []


def info(*, rootless: bool = False, **host: Any) -> dict[str, Any]:
    """What libpod says of itself, as a real one's (4.3.1)."""
    told = {
        "os": "linux",
        "distribution": {"distribution": "debian", "version": "12"},
        "kernel": "double",
        "cpus": 8,
        "memTotal": 8 << 30,
        "cgroupVersion": "v2",
        "cgroupControllers": ["cpu", "memory", "pids"],
        "security": {"rootless": rootless, "seccompEnabled": True},
    }
    return {"host": {**told, **host}}


def facts_of(told: dict[str, Any]) -> EngineFacts:
    return read_facts(ENDPOINT, PODMAN, docker_info(told), "1.41", told)


def test_facts_are_podmans_own() -> None:
    facts = facts_of(info(kernel=platform.release(), rootless=True))
    assert (facts.name, facts.version, facts.kind, facts.rootless) == ("Podman", "4.9.3", "podman", True)
    assert (facts.native, facts.kernel, facts.cpus, facts.memory) == (True, platform.release(), 8, 8 << 30)
    assert (facts.cgroups, facts.system, facts.seccomp) == ("2", "debian", True)
    assert facts.limits == ("memory", "swap", "pids", "cpus")
    assert facts_of(info(cgroupControllers=[])).limits == ()
    assert facts_of(info(cgroupControllers=None)).limits == ()
    assert facts_of(info(cgroupControllers=["pids"])).limits == ("pids",)
    assert not facts_of(info(security={"rootless": False, "seccompEnabled": False})).seccomp
    assert not facts_of(info()).native


def test_where_podman_keeps_its_list_of_images() -> None:
    store = {"graphRoot": "/g", "graphDriverName": "overlay", "graphOptions": {"overlay.mountopt": "nodev"}}
    here = info(kernel=platform.release())
    assert facts_of({**here, "store": store}).images == "/g/overlay-images/images.json"
    assert facts_of({**here, "store": {**store, "graphOptions": {"overlay.imagestore": "/i"}}}).images == ""
    assert facts_of({**info(), "store": store}).images == "", "the file would be in another machine"
    assert facts_of(here).images == ""


def test_a_rootless_docker_is_used_and_root_inside_is_the_person() -> None:
    told = {**INFO, "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"]}
    facts = read_facts(ENDPOINT, VERSION, told, "1.43")
    assert (facts.kind, facts.rootless) == ("docker", True)
    assert facts.user(1000, 1000) == "0:0"
    assert read_facts(ENDPOINT, VERSION, {**told, "CgroupDriver": "none"}, "1.43").limits == ()


def test_whose_files_they_are() -> None:
    assert EngineFacts().user(1000, 100) == "1000:100"
    assert ROOTFUL.user(1000, 100) == "1000:100"
    assert ROOTLESS.user(1000, 100) == "1000:100"
    in_a_machine = EngineFacts(kind="podman", rootless=True, native=False)
    assert in_a_machine.user(501, 20) == "", "its own numbers for the person, which keep-id takes"


@pytest.fixture
def double(tmp_path: Path) -> Iterator[EngineDouble]:
    made = EngineDouble(tmp_path)
    made.version = dict(PODMAN)
    made.answer("GET .*/libpod/info", 200, info())
    yield made
    made.close()


def test_a_podman_that_answers_is_one(double: EngineDouble) -> None:
    engine = try_engine(Endpoint(double.host, "a test"))
    assert isinstance(engine, PodmanEngine)
    assert engine.name == "Podman 4.9.3"
    engine.close()


def test_a_podman_that_is_too_old_says_so(double: EngineDouble) -> None:
    double.version["Version"] = "3.4.4"
    with pytest.raises(Unusable) as raised:
        try_engine(Endpoint(double.host, "a test"))
    assert (raised.value.why, raised.value.engine) == ("old", "Podman")


@pytest.mark.parametrize("answer", [(500, {}), (200, {}), (200, {"host": 5}), (200, b"nonsense")])
def test_a_podman_that_lies_is_no_engine(double: EngineDouble, answer: tuple[int, Any]) -> None:
    double.calm()
    double.answer("GET .*/libpod/info", *answer)
    with pytest.raises(Unusable) as raised:
        try_engine(Endpoint(double.host, "a test"))
    assert raised.value.why == "broken"


def test_its_end_is_asked_for_again_and_again(
    double: EngineDouble, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = try_engine(Endpoint(double.host, "a test"))
    told = seen(asked(work, ROOTFUL), ROOTFUL)
    states = ["created", "running", "running", "exited"]
    monkeypatch.setattr(PodmanEngine, "_inspect", lambda self, box: {**told, "State": _state(states)})
    assert engine.end_of("b0x", 5)["State"]["ExitCode"] == 3
    assert states == ["exited"]
    states[:] = ["running"]
    with pytest.raises(TimeoutError):
        engine.end_of("b0x", 0.05)
    engine.close()


def _state(states: list[str]) -> dict[str, Any]:
    status = states[0] if len(states) == 1 else states.pop(0)
    return {"Status": status, "Running": status == "running", "ExitCode": 3}


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("container 1 is in state stopping: container state improper", "busy"),
        ("no such device", "failed"),
    ],
)
def test_a_box_that_is_on_its_way_is_asked_for_again(double: EngineDouble, text: str, how: str) -> None:
    engine = try_engine(Endpoint(double.host, "a test"))
    double.answer("DELETE .*", 500, {"message": text})
    assert engine.remove_once("b0x") == how
    engine.close()


def test_the_words_say_which_limits_hold() -> None:
    def engine(facts: EngineFacts) -> Engine:
        return Engine(ENDPOINT, None, facts)

    whole = "At most 4 GB of memory, 2 processors and 512 processes."
    assert in_words(None) == in_words(engine(ROOTFUL)) == whole
    assert in_words(engine(ROOTLESS)) == (
        "At most 512 processes. Podman cannot limit memory or processors on this computer."
    )
    none = EngineFacts(limits=(), kind="docker")
    assert in_words(engine(none)) == (
        "Docker cannot limit memory, processors or the number of processes on this computer."
    )
    assert limits.holds(EngineFacts(limits=("memory", "swap"))) == ("memory",)


def test_the_proof_says_who_counts_the_processes() -> None:
    by_kernel = {"PidsLimit": 0, "Ulimits": [{"Name": "RLIMIT_NPROC", "Soft": 512, "Hard": 512}]}
    assert processes({"PidsLimit": 512}, ROOTFUL) == "512"
    assert processes(by_kernel, ROOTLESS) == "512, counted by the kernel"
    assert processes({}, ROOTLESS) == processes(by_kernel, ROOTFUL) == "no limit"


@pytest.mark.parametrize(
    ("platform", "kind", "path", "address"),
    [
        ("darwin", "PodmanSocket", "/var/folders/x/podman.sock", "unix:///var/folders/x/podman.sock"),
        ("win32", "PodmanPipe", "\\\\.\\pipe\\podman-mine", "npipe:////./pipe/podman-mine"),
    ],
)
def test_a_machine_says_where_it_is(platform: str, kind: str, path: str, address: str, tmp_path: Path) -> None:
    entry = [{"Name": "mine", "State": "running", "ConnectionInfo": {kind: {"Path": path}}}]
    (tmp_path / "podman").write_text(f"#!/bin/sh\ncat <<'X'\n{json.dumps(entry)}\nX\n")
    (tmp_path / "podman").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/bin:/usr/bin"}
    (found,) = machine.found_machines(env, tmp_path, platform)
    assert (found.name, found.running) == ("mine", True)
    assert found.endpoint == Endpoint(address, "Podman's machine")


@pytest.mark.parametrize("text", ["", "[", "{}", "5", "[5]", '[{"ConnectionInfo": 5}]', '[{"ConnectionInfo": {}}]'])
def test_whatever_podman_says_of_its_machines_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "podman").write_text(f"#!/bin/sh\necho '{text}'\n")
    (tmp_path / "podman").chmod(0o755)
    found = machine.found_machines({"PATH": str(tmp_path)}, tmp_path, "darwin")
    assert all(one.endpoint is None for one in found)
