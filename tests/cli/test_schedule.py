"""``tenon schedule``: what it prints of files and of a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from tests.cli.fleet_api import FakeFleet, serving_fleet

pytestmark = pytest.mark.integration

SCHEDULES = "/apis/tenon.sh/v1alpha1/nodeschedules"
Run = Callable[..., Result]
BODY: dict[str, Any] = {
    "apiVersion": "tenon.sh/v1alpha1",
    "kind": "NodeSchedule",
    "metadata": {"name": "hours"},
    "spec": {
        "timeZone": "Europe/Berlin",
        "nodePools": ["web"],
        "entries": [
            {"name": "nights", "from": "19:00", "to": "09:00", "closed": True},
            {"name": "hours", "from": "09:00", "to": "19:00", "floor": {"nodes": 2}},
        ],
    },
}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "schedules.json"
    path.write_text(json.dumps(BODY))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["schedule", *arguments])


def test_preview_draws_the_week_of_files(file: str) -> None:
    result = run("preview", "--week", "-f", file, "--at", "2026-03-28T12:00:00Z")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "web, Europe/Berlin"
    assert lines[2] == "Sat 28 Mar " + "." * 18 + "F" * 20 + "." * 10
    assert lines[3] == "Sun 29 Mar " + "." * 4 + "  " + "." * 12 + "F" * 20 + "." * 10
    assert ". off   F floor" in result.stdout


def test_list_says_what_holds_until_when_and_why(file: str) -> None:
    result = run("list", "-f", file, "--at", "2026-03-29T05:00:00Z")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[1].split() == ["web", "off", "2026-03-29T06:55:00Z", "hours/nights"]
    document = json.loads(run("list", "-f", file, "--at", "2026-03-29T12:00:00Z", "-o", "json").stdout)
    assert document["nodePools"]["web"]["floor"]["nodes"] == 2


@pytest.mark.parametrize("command", ["list", "preview"])
@pytest.mark.parametrize("at", ["9999-12-31", "0001-01-01"])
def test_a_time_without_days_around_it_is_refused(file: str, command: str, at: str) -> None:
    result = run(command, "-f", file, "--at", at)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"--at {at} is not in the years 2 to 9998: write a time such as 2026-01-31.\n"


def test_notes_of_json_are_on_standard_error(file: str) -> None:
    result = run("preview", "-f", file, "-o", "json")
    assert json.loads(result.stdout)["nodePools"]
    assert "so no cost is shown: --live adds the cluster's." in result.stderr


def test_a_schedule_with_a_problem_is_named_and_the_others_are_shown(file: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    spec = BODY["spec"] | {"timeZone": "Europe/Belrin"}
    bad.write_text(json.dumps(BODY | {"metadata": {"name": "bad"}, "spec": spec}))
    result = run("preview", "-f", file, "-f", str(bad))
    assert result.exit_code == 2
    assert "NodeSchedule bad: spec.timeZone: 'Europe/Belrin' is not an IANA time zone" in result.stderr
    assert "web, Europe/Berlin" in result.stdout


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeFleet]:
    fleet = FakeFleet()
    fleet.node(1, "web", "m5.large")
    fleet.node(2, "web", "m5.large")
    fleet.objects[SCHEDULES] = [BODY]
    with serving_fleet(fleet, tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield fleet


@pytest.mark.usefixtures("cluster")
def test_preview_of_a_cluster_says_what_its_nodes_cost_by_schedule() -> None:
    result = run("preview", "--no-aws", "--at", "2026-06-08T12:00:00Z", "-o", "json")
    assert result.exit_code == 0, result.stderr
    [pool] = json.loads(result.stdout)["nodePools"]
    assert pool["cost"]["scheduled"] == pytest.approx(pool["cost"]["unscheduled"] * (10 + 5 / 60) / 24, rel=1e-3)


def test_a_file_is_priced_with_the_nodes_of_the_cluster_and_takes_the_place_of_its_namesake(
    cluster: FakeFleet, tmp_path: Path
) -> None:
    """So the cost is known before the schedule is applied, also if the cluster does not know the kind yet."""
    spec = BODY["spec"] | {"entries": [{"from": "12:00", "to": "00:00", "closed": True}]}
    path = tmp_path / "half.json"
    path.write_text(json.dumps(BODY | {"spec": spec}))
    arguments = ("preview", "--no-aws", "--at", "2026-06-08T12:00:00Z", "-o", "json", "-f", str(path))
    assert json.loads(run(*arguments).stdout)["nodePools"][0]["cost"] is None
    for _ in range(2):
        [pool] = json.loads(run(*arguments, "--live").stdout)["nodePools"]
        assert pool["cost"]["scheduled"] == pytest.approx(pool["cost"]["unscheduled"] / 2, rel=0.01)
        cluster.objects.pop(SCHEDULES, None)


def test_a_cluster_without_the_kind_says_what_to_do(cluster: FakeFleet) -> None:
    del cluster.objects[SCHEDULES]
    result = run("list")
    assert result.exit_code == 2
    assert "apply Tenon's CRDs, or name files with -f" in result.stderr
