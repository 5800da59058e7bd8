"""A Windows folder in a box, and a Windows pipe's errors. None of it was ever run on Windows."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pytest

from workplaces.container.asking import try_engine
from workplaces.container.contexts import Endpoint
from workplaces.container.engine import Engine, EngineFacts
from workplaces.container.paths import inside, shown_inside, told
from workplaces.container.refusals import Unusable


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PureWindowsPath("C:\\x"), "/c/x"),
        (PureWindowsPath("C:\\Users\\Ann B\\proj"), "/c/Users/Ann B/proj"),
        (PureWindowsPath("d:/x/y"), "/d/x/y"),
        (PureWindowsPath("C:\\"), "/c"),
        (PureWindowsPath("\\\\server\\share\\x"), "/server/share/x"),
        (PureWindowsPath(".git"), ".git"),
        (PureWindowsPath("a\\b"), "a/b"),
        (PurePosixPath("/home/a"), "/home/a"),
        (PurePosixPath("/home/a:b\\c"), "/home/a:b\\c"),
    ],
)
def test_a_path_in_a_box(path: PureWindowsPath | PurePosixPath, expected: str) -> None:
    assert inside(path) == expected


def test_what_a_sentence_says_is_where_it_is_in_the_box() -> None:
    assert shown_inside(Path("/a/b\n")) == "/a/b\\n"
    assert shown_inside(PureWindowsPath("C:\\a\\b")) == "/c/a/b"  # type: ignore[arg-type]


BODY: dict[str, Any] = {
    "Image": "x",
    "WorkingDir": "C:\\work",
    "HostConfig": {
        "Mounts": [
            {"Type": "tmpfs", "Target": "/data/deep/er"},
            {"Type": "bind", "Source": "C:\\work", "Target": "C:\\work"},
            {"Type": "bind", "Source": "C:\\work\\a\\b", "Target": "C:\\work\\a\\b"},
            {"Type": "bind", "Source": "C:\\work\\.git", "Target": "C:\\work\\.git"},
        ],
        "ReadonlyRootfs": True,
    },
}


def test_an_engine_is_told_the_folder_as_it_is_here_and_there() -> None:
    body = told(BODY)
    assert (body["WorkingDir"], body["Image"], body["HostConfig"]["ReadonlyRootfs"]) == ("/c/work", "x", True)
    mounts = body["HostConfig"]["Mounts"]
    assert [mount["Target"] for mount in mounts] == ["/c/work", "/data/deep/er", "/c/work/.git", "/c/work/a/b"]
    assert mounts[0]["Source"] == "C:\\work"
    assert BODY["WorkingDir"] == "C:\\work", "what was asked is left as it was"


def test_only_on_windows_is_it_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Client:
        def create_container_from_config(self, body: dict[str, Any], name: str) -> dict[str, str]:
            asked.append(body)
            return {"Id": name}

    engine = Engine(Endpoint("npipe:////./pipe/docker_engine", "Docker"), Client(), EngineFacts())
    engine.create(BODY, "one")
    monkeypatch.setattr(sys, "platform", "win32")
    engine.create(BODY, "two")
    assert [body["WorkingDir"] for body in asked] == ["C:\\work", "/c/work"]


class PipeError(Exception):
    """As pywin32's, which is no OSError."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "CreateFile", "words of Windows'")
        self.winerror = number


@pytest.mark.parametrize(
    ("number", "why"), [(2, "gone"), (5, "denied"), (231, "silent"), (121, "silent"), (109, "broken")]
)
def test_a_named_pipe_that_does_not_open_says_why(number: int, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(endpoint: Endpoint, limit: float) -> Any:
        raise PipeError(number)

    monkeypatch.setattr("workplaces.container.wire._pipe", refuse)
    with pytest.raises(Unusable) as raised:
        try_engine(Endpoint("npipe:////./pipe/docker_engine", "Docker"))
    assert raised.value.why == why
