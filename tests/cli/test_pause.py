"""``tenon pause --list`` and ``tenon resume``: what they print of the pauses of a cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from tenon.apis import labels
from tests.cli.fleet_api import FREEZES, FakeFleet, serving_fleet, stamp

pytestmark = pytest.mark.integration
HOUR = timedelta(hours=1)


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeFleet]:
    fleet = FakeFleet()
    fleet.objects[FREEZES] = []
    with serving_fleet(fleet, tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield fleet


def pause(fleet: FakeFleet, name: str, ends_in: timedelta | None, *pools: str) -> None:
    end_time = {} if ends_in is None else {"endTime": stamp(-ends_in)}
    spec = {"nodePools": list(pools), "reason": "2.0 ships", "requestedBy": "ann", **end_time}
    fleet.add(FREEZES, {"metadata": {"name": name, "labels": {labels.PAUSE: "true"}}, "spec": spec})


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_the_list_has_the_pauses_that_have_not_ended(fleet: FakeFleet) -> None:
    pause(fleet, "pause-old", -HOUR, "old")
    assert (run("pause", "--list").stdout, run("pause", "--list").stderr) == ("", "Nothing is paused.\n")
    pause(fleet, "pause-gpu", HOUR, "gpu")
    pause(fleet, "pause", None)
    title, *rows = run("pause", "--list").stdout.splitlines()
    assert title.split() == ["PAUSE", "NODEPOOLS", "UNTIL", "BY", "REASON"]
    assert [row.split()[:2] for row in rows] == [["pause-gpu", "gpu"], ["pause", "all"]]
    assert rows[1].split() == ["pause", "all", "resumed", "ann", "2.0", "ships"]
    names = [entry["name"] for entry in json.loads(run("pause", "--list", "-o", "json").stdout)]
    assert names == ["pause-gpu", "pause"]
    assert run("pause", "--list", "-o", "yaml").exit_code == 2


def test_a_narrow_terminal_breaks_no_time(fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    pause(fleet, "pause-default", timedelta(hours=2), "default", "batch", "gpu", "web", "etl", "search")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    output = run("pause", "--list").stdout
    assert re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", output)
