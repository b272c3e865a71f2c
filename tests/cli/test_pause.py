"""``tenon pause`` and ``tenon resume``: what they print of the pauses of a cluster, and what they refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner, Result

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DISRUPTIONFREEZES
from cli.main import app
from cli.pauses import PauseError, resume
from tenon.apis import labels
from tests.activities.node.fake_kube import Clock, FakeKube
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


async def not_connected() -> Any:
    pytest.fail("it is refused before the cluster is asked")


@pytest.mark.parametrize("arguments", [("pause", ""), ("pause", "gpu", "", "--for", "2h"), ("resume", "")])
def test_an_empty_name_is_refused_and_stands_for_no_nodepool(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of a variable that is not set: without names, the commands are about all NodePools."""
    monkeypatch.setattr("cli.pause.connected", not_connected)
    monkeypatch.setattr("cli.resume.connected", not_connected)
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Invalid value for 'NAME': it is empty." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-o", "json"), "-o json goes with --list"),
        (("--list", "gpu"), "--list shows all pauses"),
        (("--list", "--for", "2h"), "--list shows all pauses"),
        (("--list", "--reason", "release"), "--list shows all pauses"),
    ],
)
def test_options_of_a_list_do_not_go_with_those_of_a_pause(
    arguments: tuple[str, ...], sentence: str, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause(fleet, "pause-gpu", HOUR, "gpu")
    monkeypatch.setattr("cli.pause.connected", not_connected)
    result = run("pause", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


async def test_the_pause_that_is_lifted_is_named_with_the_one_that_does_not_exist() -> None:
    kube = FakeKube(Clock())
    kube.add(DISRUPTIONFREEZES, {"metadata": {"name": "pause-a", "labels": {labels.PAUSE: "true"}}, "spec": {}})
    with pytest.raises(PauseError, match=r"^Lifted: pause-a\. NodePool b has no pause of its own"):
        await resume(cast("Kube", kube), ["a", "b"], utc_now())
    assert kube.names(DISRUPTIONFREEZES) == []


def test_a_pause_takes_days(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[Any] = []

    async def pause_until(_pools: object, until: Any, _reason: str) -> list[str]:
        ends.append(until)
        return ["pause"]

    monkeypatch.setattr("cli.pause._pause", pause_until)
    before = utc_now()
    assert run("pause", "--for", "2d").exit_code == 0
    assert timedelta(days=2) <= ends[0] - before < timedelta(days=2, hours=1)
    assert run("pause", "--for", "36501d").stderr.startswith(
        "'36501d' is too long for a duration: the maximum is 36500d"
    )
