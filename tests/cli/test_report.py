"""``tenon report`` on a small API server: what it reads, what it writes, and what it says when something is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.context import Context
from cli.main import app
from cli.reporting.past import window_of
from tenon.record.entries import Entry, LaunchEntry, RecordedNode, RemovalEntry
from tenon.record.lines import line_of
from tests.cli.fleet_api import NODES, POOLS, FakeFleet, serving_fleet, varied_fleet

pytestmark = pytest.mark.integration

PDBS = "/apis/policy/v1/poddisruptionbudgets"
Report = Callable[..., Result]


def fleet_with_budgets() -> FakeFleet:
    fleet = varied_fleet()
    fleet.objects[PDBS] = []
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    for pool in fleet.objects[POOLS]:
        pool["spec"]["template"] = {"spec": {"requirements": [], "nodeClassRef": reference}}
    metadata = {"name": "all", "namespace": "shop", "generation": 1}
    spec = {"selector": {}, "maxUnavailable": 0}
    fleet.add(PDBS, {"metadata": metadata, "spec": spec, "status": {"disruptionsAllowed": 0, "observedGeneration": 1}})
    return fleet


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with serving_fleet(fleet_with_budgets(), tmp_path_factory.mktemp("fleet")) as path:
        yield path


@pytest.fixture
def report(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Report:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.chdir(tmp_path)
    for name in ("CLUSTER_NAME", "TENON_RECORD", "RECORD_SINKS"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: CliRunner().invoke(app, ["report", "--no-aws", *arguments])


def record_of(path: Path, *clusters: str) -> Path:
    """Write a record in which each cluster launched and lost a node an hour ago."""
    now = datetime.now(UTC)
    entries: list[Entry] = []
    for cluster in clusters:
        node = RecordedNode(claim="a", pool="web", instance=f"i-{cluster}", instance_type="m5.large", price=0.5)
        start, end = now - timedelta(hours=3), now - timedelta(hours=1)
        entries.append(LaunchEntry(id=f"l/{cluster}", at=start, cluster=cluster, facts=node, launched_at=start))
        removal = RemovalEntry(
            id=f"r/{cluster}",
            at=end,
            cluster=cluster,
            facts=node,
            reason="Empty",
            launched_at=start,
            terminated_at=end,
        )
        entries.append(removal)
    path.write_text("".join(f"{line_of(entry)}\n" for entry in entries) + "no entry\n", encoding="utf-8")
    return path


def test_the_page_is_written_to_a_file(report: Report, tmp_path: Path) -> None:
    result = report("-o", str(tmp_path / "page.html"))
    assert result.exit_code == 0, result.output
    assert re.search(r"page.html: \d+ kB", result.stderr)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    for text in ("ip-10-0-0-3", "Prices are list prices", "No cluster is named", "No record was read", "gpu"):
        assert text in page


def test_without_a_name_the_file_is_report_html(report: Report, tmp_path: Path) -> None:
    assert report().exit_code == 0
    assert (tmp_path / "report.html").is_file()


def test_json_has_nodes_prices_budgets_and_the_record(report: Report, tmp_path: Path) -> None:
    record = record_of(tmp_path / "record.jsonl", "prod")
    result = report("-o", "json", "--record", str(record), "--since", "2d")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["totals"]["nodes"] == 9, "and one node of a node group"
    assert document["past"]["lastDay"]["launches"] == document["past"]["lastDay"]["removals"] == 1
    assert document["past"]["cost"]["byNodePool"]["web"] > 1.0, "two hours of a node that is gone, and the live ones"
    advice = {item["rule"]: item for item in document["advice"]}
    assert "shop/all" in advice["pinned-by-annotation-and-budget"]["sentence"]
    assert advice["drain-waits-for-budget"]["nodes"] == ["ip-10-0-0-6.eu-central-1.compute.internal"]
    pending = {pod["why"] for pod in document["pendingPods"]}
    assert "0/9 nodes are available: 9 Insufficient nvidia.com/gpu." in pending


def test_the_variable_of_the_worker_names_the_record_too(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECORD_SINKS", f"stdout,{record_of(tmp_path / 'record.jsonl', 'prod').as_uri()}")
    document = json.loads(report("-o", "json").stdout)
    assert document["past"]["window"]["removed"][0]["reason"] == "Empty"


def test_the_record_of_the_sandbox_in_this_folder_is_read_without_an_option(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"TENON_RECORD": str(record_of(tmp_path / "record.jsonl", "sandbox"))}
    for name in environment:
        monkeypatch.setenv(name, "")  # so that what the command sets is undone
        monkeypatch.delenv(name)
    monkeypatch.setattr("cli.context._running_sandbox", lambda: Context("sandbox", environment))
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    document = json.loads(report("-o", "json").stdout)
    assert document["past"]["window"]["removed"][0]["reason"] == "Empty"


def test_entries_of_several_clusters_are_not_mixed(report: Report, tmp_path: Path) -> None:
    record = record_of(tmp_path / "record.jsonl", "prod", "test")
    result = report("-o", "json", "--record", str(record))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "The record has the clusters prod, test: name one with --cluster.\n"


def test_an_empty_record_is_a_note(report: Report, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    document = json.loads(report("-o", "json", "--record", "empty.jsonl").stdout)
    assert "The record has no entries of this time" in document["notes"]
    assert document["past"]["window"]["launches"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "report.pdf"), "--output 'report.pdf' has no known format: name a file .html or .json"),
        (("-o", "nowhere/report.html"), "nowhere/report.html cannot be written: No such file or directory."),
        (("--since", "soon"), "'soon' is no time: write 12h, 30d"),
        (("--since", "10m"), "--since '10m' is out of bounds: a report looks back 1h to 366d"),
        (("--record", "ftp://x"), "No record can be read from 'ftp://x'"),
        (("--record", "missing.jsonl"), "The record missing.jsonl cannot be read: No such file or directory."),
    ],
)
def test_what_is_wrong_is_one_sentence(report: Report, arguments: tuple[str, ...], message: str) -> None:
    result = report(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_an_outage_of_temporal_is_a_note(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    document = json.loads(report("-o", "json", "--cluster", "prod").stdout)
    assert document["cluster"] == "prod"
    assert [note for note in document["notes"] if note.startswith("From Kubernetes alone")]
    assert document["totals"]["nodes"] == 9, "and one node of a node group"


def test_an_api_server_that_serves_no_budgets_is_a_note(
    tmp_path: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = varied_fleet()
    fleet.objects[NODES] = fleet.objects[NODES][:2]
    with serving_fleet(fleet, tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        document = json.loads(report("-o", "json").stdout)
    assert [note for note in document["notes"] if note.startswith("PodDisruptionBudgets cannot be read")]


@pytest.mark.parametrize(
    ("since", "window"),
    [("7d", timedelta(days=7)), ("36h", timedelta(hours=36)), ("2026-03-08", timedelta(hours=36))],
)
def test_the_window_is_a_duration_or_begins_at_a_date(since: str, window: timedelta) -> None:
    assert window_of(since, datetime(2026, 3, 9, 12, tzinfo=UTC)) == window


@pytest.mark.parametrize("since", ["367d", "59m", "2026-03-10", "2024-01-01"])
def test_a_window_is_at_least_an_hour_and_at_most_a_year(since: str) -> None:
    with pytest.raises(ValueError, match="a report looks back 1h to 366d"):
        window_of(since, datetime(2026, 3, 9, 12, tzinfo=UTC))
