"""What holds for every test: it leaves the person's own Conch alone, and in CI no real test is left out."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.real.engines.needs import in_ci

# The quick tests draw the window in memory. Qt reads this once, when its application is made.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# Words and sizes must not differ from machine to machine.
os.environ.setdefault("LC_ALL", "C.UTF-8")

_REAL = Path(__file__).parent / "real"


@pytest.fixture(autouse=True)
def conch_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Conch keeps things in this test; not made yet, as on a first start."""
    home = tmp_path / "conch-home"
    monkeypatch.setenv("CONCH_HOME", str(home))
    monkeypatch.setenv("CONCH_SSH_CONFIG", str(tmp_path / "ssh-config"))
    return home


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Python collects its garbage between tests, on this thread alone.

    Left to itself it does so in whichever thread makes an object; a widget that an earlier test left would be destroyed
    there, and its timers fire into freed memory.
    """
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    gc.collect(1 if nextitem is not None and nextitem.path == item.path else 2)


def _must_run(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turns a skip into a failure that says why it was skipped."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"in CI every real test must run. {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and in_ci() and item.get_closest_marker("real"):
        _must_run(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and in_ci() and collector.path.is_relative_to(_REAL):
        _must_run(report)
    return report
