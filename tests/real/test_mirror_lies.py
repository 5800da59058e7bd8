"""As many machines that lie as the quick tests have no time for."""

from __future__ import annotations

import pytest

from tests.workplaces import test_mirror_hostile, test_ssh_hostile


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_machines_that_lie() -> None:
    test_mirror_hostile.lies(500)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_thousand_machines_that_lie_over_a_connection() -> None:
    test_ssh_hostile.lies(2000)
