"""Ends a test run in time: `TENON_TESTS_UNTIL` names the second, since the epoch, after which no test begins.

The checks of a change are given up after 90 minutes. On a machine whose host is busy, the suite can take longer, and
all that it has found would be lost. The tests that did not begin are skipped and named at the end, and the slow files
come first, so what is left out is small.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

import pytest

UNTIL = "TENON_TESTS_UNTIL"
REASON = "the time of the run is over"


def latest_start() -> float:
    """Return the second, since the epoch, after which no test begins; infinity if none is set."""
    return float(os.environ.get(UNTIL) or "inf")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > latest_start():
        pytest.skip(REASON)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = terminalreporter.stats.get("skipped", [])
    left_out = Counter(report.nodeid.partition("::")[0] for report in reports if REASON in str(report.longrepr))
    if not left_out:
        return
    terminalreporter.section(f"{sum(left_out.values())} tests did not run: {REASON}", red=True)
    for file, count in sorted(left_out.items()):
        terminalreporter.write_line(f"{count:4} of {file}", red=True)
