"""Two clusters of one account at once, inside its request limits: the benchmark's drill with fewer nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.account import drill
from tests.ec2sandbox.conftest import Clock


def test_h7_two_clusters_of_an_account_launch_and_end_inside_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS-030..032: nothing comes back to the buckets, and nothing is refused: the calls are that few."""
    from sandbox.ec2.authorization.identities import ADMINISTRATOR_KEY, environment
    from sandbox.ec2.buckets import Buckets
    from sandbox.ec2.server import start

    for name, value in environment(ADMINISTRATOR_KEY).items():
        monkeypatch.setenv(name, value)
    server = start(tmp_path)
    try:
        server.world.buckets = Buckets(Clock())
        figures = drill(server, launches=120, group=20, endings=60)
    finally:
        server.close()
    assert figures.faults == []
    assert figures.refused == {}
    assert (figures.launched, figures.groups, figures.fleets_of_a_group, figures.ended) == (120, 6, 1, 60)
