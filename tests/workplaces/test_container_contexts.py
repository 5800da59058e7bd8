"""Where an engine is looked for: the docker CLI's rules, and whatever may stand in the person's files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workplaces.container.contexts import BadEndpoint, Endpoint, Tls, endpoints, known


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    folder = tmp_path / ".docker"
    folder.mkdir()
    return folder


def context(docker: Path, name: str, meta: Any) -> Path:
    key = hashlib.sha256(name.encode()).hexdigest()
    folder = docker / "contexts" / "meta" / key
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.json").write_text(meta if isinstance(meta, str) else json.dumps(meta))
    return docker / "contexts" / "tls" / key / "docker"


def at(host: Any) -> dict[str, Any]:
    return {"Name": "x", "Metadata": {}, "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}}}


def choose(docker: Path, name: Any) -> None:
    (docker / "config.json").write_text(json.dumps({"auths": {}, "currentContext": name}))


def test_without_a_word_the_known_sockets_are_tried(tmp_path: Path) -> None:
    found = endpoints({"XDG_RUNTIME_DIR": "/run/user/7"}, tmp_path)
    assert [place.address for place in found] == [
        "unix:///var/run/docker.sock",
        f"unix://{tmp_path}/.docker/run/docker.sock",
        f"unix://{tmp_path}/.docker/desktop/docker.sock",
        f"unix://{tmp_path}/.orbstack/run/docker.sock",
        f"unix://{tmp_path}/.colima/default/docker.sock",
        f"unix://{tmp_path}/.rd/docker.sock",
        "unix:///run/user/7/docker.sock",
        "unix:///run/user/7/podman/podman.sock",
        "unix:///run/podman/podman.sock",
    ]
    assert not any(place.explicit for place in found)
    assert [place.podman for place in found] == [False] * 7 + [True] * 2


def test_without_a_runtime_folder_it_is_where_the_system_makes_it(tmp_path: Path) -> None:
    addresses = [place.address for place in known({}, tmp_path)]
    assert f"unix:///run/user/{os.getuid()}/docker.sock" in addresses
    assert f"unix:///run/user/{os.getuid()}/podman/podman.sock" in addresses


def test_colimas_profiles_are_all_looked_at(tmp_path: Path) -> None:
    for name in ("work", "default", "arm"):
        (tmp_path / ".colima" / name).mkdir(parents=True)
        (tmp_path / ".colima" / name / "docker.sock").touch()
    (tmp_path / ".config" / "colima" / "new").mkdir(parents=True)
    (tmp_path / ".config" / "colima" / "new" / "docker.sock").touch()
    found = [place.path for place in known({}, tmp_path) if place.source == "Colima"]
    profiles = (".colima/default", ".colima/arm", ".colima/work", ".config/colima/new")
    assert found == [f"{tmp_path}/{name}/docker.sock" for name in profiles]
    moved = [place.path for place in known({"COLIMA_HOME": f"{tmp_path}/c"}, tmp_path) if place.source == "Colima"]
    assert moved[0] == f"{tmp_path}/c/default/docker.sock"


def test_on_windows_the_named_pipes_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    found = known({}, tmp_path)
    assert [place.path for place in found] == [
        "//./pipe/docker_engine",
        "//./pipe/dockerDesktopLinuxEngine",
        "//./pipe/podman-machine-default",
    ]


def test_two_names_of_one_socket_are_one(tmp_path: Path) -> None:
    (tmp_path / ".docker" / "run").mkdir(parents=True)
    (tmp_path / ".orbstack" / "run").mkdir(parents=True)
    (tmp_path / ".docker" / "run" / "docker.sock").symlink_to(tmp_path / ".orbstack" / "run" / "docker.sock")
    found = known({"XDG_RUNTIME_DIR": str(tmp_path / "run")}, tmp_path)
    assert [place.source for place in found].count("OrbStack") == 0
    assert len(found) == 8


def test_docker_host_stands_alone(docker: Path) -> None:
    context(docker, "other", at("unix:///ctx.sock"))
    choose(docker, "other")
    env = {"DOCKER_HOST": " unix:///my.sock ", "DOCKER_CONTEXT": "other"}
    assert endpoints(env, docker.parent) == (Endpoint("unix:///my.sock", "DOCKER_HOST", explicit=True),)
    assert endpoints({**env, "DOCKER_HOST": ""}, docker.parent)[0].address == "unix:///ctx.sock"


def test_a_context_is_followed_and_the_environments_wins(docker: Path) -> None:
    context(docker, "one", at("unix:///one.sock"))
    context(docker, "two é", at("unix:///two.sock"))
    choose(docker, "one")
    (first,) = endpoints({}, docker.parent)
    assert (first.address, first.explicit, "one" in first.source) == ("unix:///one.sock", True, True)
    (second,) = endpoints({"DOCKER_CONTEXT": "two é"}, docker.parent)
    assert second.address == "unix:///two.sock"
    (elsewhere,) = endpoints({"DOCKER_CONFIG": str(docker)}, Path("/nowhere"))
    assert elsewhere == first


@pytest.mark.parametrize("name", ["", "default", None, 5, ["x"]])
def test_no_context_is_chosen(docker: Path, name: Any) -> None:
    choose(docker, name)
    assert len(endpoints({}, docker.parent)) > 1
    assert len(endpoints({"DOCKER_CONTEXT": "default"}, docker.parent)) > 1


def test_a_context_that_is_gone_or_bad_is_never_passed_over(docker: Path) -> None:
    choose(docker, "gone")
    with pytest.raises(BadEndpoint, match="“gone” is chosen, but it does not exist"):
        endpoints({}, docker.parent)
    for meta in ("", "{", "[]", "null", '{"Endpoints": []}', '{"Endpoints": {"docker": 5}}', at(None), at(5), at(" ")):
        context(docker, "gone", meta)
        with pytest.raises(BadEndpoint, match="“gone” is chosen"):
            endpoints({}, docker.parent)


def test_tls_material_comes_with_its_context(docker: Path) -> None:
    tls = context(docker, "far", at("tcp://127.0.0.1:2376"))
    choose(docker, "far")
    assert endpoints({}, docker.parent)[0].tls is None
    tls.mkdir(parents=True)
    assert endpoints({}, docker.parent)[0].tls == Tls(tls)
    env = {"DOCKER_HOST": "tcp://127.0.0.1:2376", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/certs"}
    assert endpoints(env, docker.parent)[0].tls == Tls(Path("/certs"))


@pytest.mark.parametrize(
    ("address", "elsewhere"),
    [
        ("unix:///x", False),
        ("tcp://127.0.0.1:2375", False),
        ("tcp://localhost:2375", False),
        ("tcp://[::1]:2375", False),
        ("tcp://10.0.0.5:2375", True),
        ("tcp://build-box", True),
        ("ssh://me@build-box", True),
        ("ssh://localhost", True),
        ("npipe:////./pipe/docker_engine", False),
    ],
)
def test_what_is_on_another_computer_is_known_by_its_address(address: str, elsewhere: bool, tmp_path: Path) -> None:
    assert endpoints({"DOCKER_HOST": address}, tmp_path)[0].elsewhere is elsewhere


@pytest.mark.parametrize(
    "address", ["x", "/var/run/docker.sock", "unix://", "http://x", "tcp://", "tcp://:5", "tcp://a:b", "fd://", "://"]
)
def test_what_is_no_address_is_said(address: str, tmp_path: Path) -> None:
    with pytest.raises(BadEndpoint, match="DOCKER_HOST"):
        endpoints({"DOCKER_HOST": address}, tmp_path)


def test_a_socket_path_may_be_odd(tmp_path: Path) -> None:
    (found,) = endpoints({"DOCKER_HOST": "unix:///a b/#x?y=%41.sock"}, tmp_path)
    assert found.path == "/a b/#x?y=%41.sock"


@given(st.text())
def test_any_docker_host_is_followed_or_refused_in_words(text: str) -> None:
    found, words = followed({"DOCKER_HOST": text}, Path("/nowhere"))
    assert words.isprintable()
    if found:
        assert found[0].explicit is bool(text.strip())
    else:
        assert "DOCKER_HOST" in words


def followed(env: dict[str, str], home: Path) -> tuple[tuple[Endpoint, ...], str]:
    try:
        return endpoints(env, home), ""
    except BadEndpoint as error:
        return (), str(error)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_JSON | st.binary(), _JSON | st.binary())
def test_any_file_there_is_followed_or_refused_in_words(config: Any, meta: Any) -> None:
    home = Path(tempfile.mkdtemp())
    try:
        docker = home / ".docker"
        docker.mkdir()
        (docker / "config.json").write_bytes(config if isinstance(config, bytes) else json.dumps(config).encode())
        context(docker, "c", "")
        file = next((docker / "contexts" / "meta").iterdir()) / "meta.json"
        file.write_bytes(meta if isinstance(meta, bytes) else json.dumps({"Endpoints": {"docker": meta}}).encode())
        for env in ({}, {"DOCKER_CONTEXT": "c"}):
            found, words = followed(env, home)
            assert found or "docker context" in words
    finally:
        shutil.rmtree(home)
