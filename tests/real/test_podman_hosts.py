"""The allowed hosts on a real Podman, root's and an ordinary user's own: the very tests of those on Docker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.engines.person import Person
from tests.real.engines.podman import Podman
from tests.real.engines.reached import Reached, env_for, reached
from tests.real.test_container_hosts import (
    Run,
    Service,
    internet,
    paper,
    place,
    run,
    service,
    tcp,
    test_a_door_that_died_is_replaced_and_a_command_that_had_it_reaches_nothing,
    test_a_listed_host_is_reached_with_its_own_certificate,
    test_a_sealed_command_has_no_door,
    test_much_comes_through_whole_and_both_ways,
    test_one_door_serves_one_command_after_another_and_keeps_nothing,
    test_stop_ends_what_goes_through_and_says_what_was_tried,
    test_stop_while_the_door_is_made_leaves_nothing,
    test_the_box_has_a_loopback_and_nothing_else,
    test_the_proof_and_the_model_are_told,
    test_two_boxes_at_once_do_not_meet,
    test_what_was_refused_is_told_once_in_order_and_to_the_one_who_tried,
    udp,
    without,
    work,
)

__all__ = [
    "internet",
    "paper",
    "place",
    "run",
    "service",
    "test_a_door_that_died_is_replaced_and_a_command_that_had_it_reaches_nothing",
    "test_a_listed_host_is_reached_with_its_own_certificate",
    "test_a_sealed_command_has_no_door",
    "test_much_comes_through_whole_and_both_ways",
    "test_one_door_serves_one_command_after_another_and_keeps_nothing",
    "test_stop_ends_what_goes_through_and_says_what_was_tried",
    "test_stop_while_the_door_is_made_leaves_nothing",
    "test_the_box_has_a_loopback_and_nothing_else",
    "test_the_proof_and_the_model_are_told",
    "test_two_boxes_at_once_do_not_meet",
    "test_what_was_refused_is_told_once_in_order_and_to_the_one_who_tried",
    "without",
    "work",
]


class WithGateway:
    """What the tests ask of an engine, with an address that these do not have as one of this computer's."""

    gateway = "10.0.2.2"

    def __init__(self, engine: Podman | Reached) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)


@pytest.fixture
def docker_host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[WithGateway]:
    """Root's Podman, or that of the ordinary user who runs these tests: as the one that DOCKER_HOST names."""
    engine = reached() or request.getfixturevalue("rootful_podman")
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(engine.home))
    yield WithGateway(engine)
    engine.clear()


@pytest.mark.timeout(200)
def test_it_holds_for_an_ordinary_user_on_a_podman_of_their_own(ordinary_user: Person, rootless_podman: Podman) -> None:
    env = {**env_for(rootless_podman), "CI": "1"}
    chosen = "listed_host or loopback or one_door or services or persons"
    done = ordinary_user.pytest("-q", "-x", __file__, "-k", f"({chosen}) and not ordinary", env=env, timeout=190)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert int(done.stdout.rpartition(" passed")[0].split()[-1]) == 5


async def test_this_computers_own_services_are_not_reached(run: Run, without: Run, service: Service) -> None:
    find = "getent ahostsv4 host.containers.internal | head -1 | cut -d' ' -f1"
    address = (await without(find)).output.out.strip()
    assert (await without(tcp(address, service.port))).output.out == "here\n"
    assert service.came == 1
    others = (address, "10.0.2.2", "10.0.2.3", "127.0.0.1")
    result = await run("; ".join(way(one, service.port) for one in others for way in (tcp, udp)))
    assert "here" not in result.output.text
    assert service.came == 1


async def test_what_it_makes_is_the_persons(run: Run, work: Path) -> None:
    assert (await run("touch made && mkdir -p a/b")).code == 0
    mine = work.stat()
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (work / "made", work / "a/b")} == {
        (mine.st_uid, mine.st_gid)
    }
