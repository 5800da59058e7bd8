"""As many machines that lie as the quick tests have no time for."""

from __future__ import annotations

import pytest

from tests.workplaces.test_mirror_hostile import lies


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_thousand_machines_that_lie() -> None:
    lies(2000)
