"""``tenon cost``: what it prints of now and of a window, and that its rows add up."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from cli.cost_view.report import CostReport
from cli.cost_view.table import table
from cli.cost_view.window import CostError, read_window
from cli.main import app
from tenon.cost.rows import Dimension, Grouping, Row
from tenon.cost.split import ConsumerKind
from tenon.evolve import evolve
from tenon.kube.timestamps import format_instant, time_text
from tenon.money import HOURS_A_MONTH, nanos
from tenon.record.entries import CommandEndEntry, Entry
from tenon.record.lines import line_of
from tests.cli.fleet_api import CLAIMS, CLASSES, NODES, PODS, FakeFleet, serving_fleet
from tests.tenon.cost.ledger import a_launch, a_removal, a_row, an_entry

pytestmark = pytest.mark.integration

BUFFERS = "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers"
Cost = Callable[..., Result]
NOW = datetime.now(UTC).replace(microsecond=0)
HOUR = timedelta(hours=1)
LIVING = "i-00000000000000001"
"""The instance of the first node of `small_fleet`."""


def small_fleet() -> FakeFleet:
    """Two nodes of a NodePool that run, and an instance whose Node has not joined."""
    fleet = FakeFleet()
    fleet.pods("web", 2, fleet.node(1, "web", "m5.large"), "500m", "1Gi")
    fleet.node(2, "web", "m5.large", capacity="spot", zone="b")
    fleet.node(3, "batch", "c6g.2xlarge", stages=1, age=timedelta(minutes=1))
    for pod in fleet.objects[PODS]:
        pod["metadata"]["labels"] = {"team": "blue"}
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": True}
        pod["metadata"]["ownerReferences"] = [owner]
    return fleet


@pytest.fixture
def fleet() -> FakeFleet:
    return small_fleet()


@pytest.fixture
def cost(fleet: FakeFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cost]:
    with serving_fleet(fleet, tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        for name in ("CLUSTER_NAME", "TENON_RECORD", "RECORD_SINKS"):
            monkeypatch.delenv(name, raising=False)
        yield lambda *arguments: CliRunner().invoke(app, ["cost", "--no-aws", *arguments])


def written(path: Path, *entries: Entry) -> str:
    """Write a record, and return its name."""
    path.write_text("".join(line_of(entry) + "\n" for entry in entries))
    return str(path)


def document(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    read: dict[str, Any] = json.loads(result.stdout)
    return read


def by_name(report: dict[str, Any], field: str = "cost") -> dict[str, float]:
    return {row["name"]: row[field] for row in report["rows"]}


# Now


@pytest.mark.parametrize("by", ["pool", "namespace", "workload", "type", "zone", "capacity-type", "label:team"])
def test_the_rows_of_each_grouping_add_up_to_the_same_total(cost: Cost, by: str) -> None:
    report = document(cost("--by", by, "-o", "json"))
    assert report["by"] == by
    total = report["total"]["costPerHour"]
    assert sum(nanos(row["costPerHour"]) for row in report["rows"]) == nanos(total)
    assert sum(row["share"] for row in report["rows"]) == pytest.approx(1, abs=1e-5)
    assert report["total"]["costPerMonth"] == round(total * HOURS_A_MONTH, 2)
    assert (report["nodes"], report["nodesWithoutPrice"]) == (3, 0)


def test_idle_room_and_starting_nodes_are_rows_of_their_own_at_the_end(cost: Cost) -> None:
    report = document(cost("-o", "json"))
    assert [(row["name"], row["kind"]) for row in report["rows"]] == [
        ("shop", "pods"),
        ("(starting)", "starting"),
        ("(idle)", "idle"),
    ]
    rows = by_name(report, "costPerHour")
    price = document(cost("--by", "type", "-o", "json"))["rows"]
    large = next(row["costPerHour"] for row in price if row["name"] == "m5.large") / 2
    assert rows["shop"] == pytest.approx(large * (9 * 1.0 + 2) / (9 * 1.93 + 7100 / 1024), rel=1e-6)
    assert 0 < report["spotShare"] < 1


def test_nodes_that_tenon_did_not_launch_are_not_counted_and_their_price_is_said(cost: Cost, fleet: FakeFleet) -> None:
    """As in tenon top, whose sums have no other nodes either."""
    ready = {"conditions": [], "allocatable": {"cpu": "2", "memory": "4Gi"}}
    fleet.add(NODES, {"metadata": {"name": "bare"}, "spec": {}, "status": ready})
    kind = {"node.kubernetes.io/instance-type": "m5.large", "eks.amazonaws.com/capacityType": "ON_DEMAND"}
    fleet.add(NODES, {"metadata": {"name": "group", "labels": kind}, "spec": {}, "status": ready})
    report = document(cost("--by", "pool", "-o", "json"))
    assert [row["name"] for row in report["rows"]] == ["batch", "web"]
    assert (report["nodes"], report["nodesWithoutPrice"]) == (3, 0)
    large = by_name(document(cost("--by", "type", "-o", "json")), "costPerHour")["m5.large"] / 2
    assert report["notes"][0] == f"Not counted: 2 nodes that Tenon did not launch (${large:.4f} an hour)"


def test_a_stopped_warm_node_costs_its_disks(cost: Cost, fleet: FakeFleet) -> None:
    volumes = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi", "volumeType": "gp3"}}]
    terms = [{"tags": {"a": "b"}}]
    selection = {"subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms}
    spec: dict[str, Any] = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "blockDeviceMappings": volumes,
        "role": "nodes",
        **selection,
    }
    fleet.add(CLASSES, {"metadata": {"name": "disks"}, "spec": spec})
    for number, name in ((4, "disks"), (5, "gone")):
        fleet.node(number, "warm", "m5.large", meta={"annotations": {"tenon.sh/warm": "stopped"}})
        fleet.objects[CLAIMS][-1]["spec"]["nodeClassRef"] = {
            "group": "karpenter.k8s.aws",
            "kind": "EC2NodeClass",
            "name": name,
        }
    report = document(cost("--by", "pool", "-o", "json"))
    assert by_name(report, "costPerHour")["warm"] == pytest.approx(100 * 0.08 / HOURS_A_MONTH, abs=1e-6)
    assert (report["nodes"], report["nodesWithoutPrice"]) == (5, 1), "nobody knows the disks of the other one"


def test_a_label_divides_the_cost_and_workloads_have_their_namespace(cost: Cost) -> None:
    teams = by_name(document(cost("--by", "label:team", "-o", "json")), "costPerHour")
    workloads = by_name(document(cost("--by", "workload", "-o", "json")), "costPerHour")
    assert teams["blue"] == workloads["shop/StatefulSet/web"]
    others = by_name(document(cost("--by", "label:owner", "-o", "json")), "costPerHour")
    assert others["(without the label)"] == teams["blue"]


def test_a_table_in_a_pipe_has_no_bars_and_says_which_prices_it_uses(cost: Cost) -> None:
    result = cost("--by", "pool", "-o", "wide")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["NodePool", "$/h", "$/month", "Share", "Pods", "Idle", "Starting"]
    assert [line.split()[0] for line in lines[1:4]] == ["batch", "web", "Total"]
    assert "█" not in result.stdout
    assert "Prices are list prices" in result.stdout


def test_csv_has_the_fields_of_the_json(cost: Cost) -> None:
    rows = list(csv.DictReader(io.StringIO(cost("-o", "csv").stdout)))
    report = document(cost("-o", "json"))
    assert [row["name"] for row in rows] == [row["name"] for row in report["rows"]]
    assert set(rows[0]) >= {"name", "kind", "costPerHour", "costPerMonth", "share"}


def test_headroom_of_buffers_is_taken_from_the_last_entry_of_the_record(
    cost: Cost, fleet: FakeFleet, tmp_path: Path
) -> None:
    fleet.objects[BUFFERS] = [{"metadata": {"name": "spare", "namespace": "shop"}, "spec": {}}]
    without = document(cost("-o", "json"))
    assert any("headroom" in note for note in without["notes"])
    quarter = timedelta(minutes=15)
    entry = an_entry(NOW - 2 * quarter, NOW - quarter, a_row("", 0.01, pool="web", of="headroom"))
    report = document(cost("-o", "json", "--record", written(tmp_path / "record", entry)))
    rows, before = by_name(report, "costPerHour"), by_name(without, "costPerHour")
    assert rows["(headroom)"] == pytest.approx(0.04)
    assert rows["(headroom)"] + rows["(idle)"] == pytest.approx(before["(idle)"])
    assert report["total"] == without["total"]


def test_the_lower_bound_is_that_of_the_last_entry_which_has_one(cost: Cost, tmp_path: Path) -> None:
    quarter = timedelta(minutes=15)
    entries = [
        an_entry(NOW - 3 * quarter, NOW - 2 * quarter, lower_bound=0.02),
        an_entry(NOW - 2 * quarter, NOW - quarter, lower_bound=0.05),
        an_entry(NOW - quarter, NOW),
    ]
    record = ("--record", written(tmp_path / "record", *entries))
    report = document(cost("-o", "json", *record))
    assert report["lowerBoundPerHour"] == 0.05
    times = report["total"]["costPerHour"] / 0.05
    at = time_text(NOW - quarter)
    text = f"Lower bound at {at}: any nodes for these pods cost at least $0.0500 an hour; these cost {times:.2f}"
    assert f"{text} times that." in cost(*record).stdout.splitlines()


def test_without_a_lower_bound_the_report_says_where_it_comes_from(cost: Cost, tmp_path: Path) -> None:
    old = an_entry(NOW - 5 * HOUR, NOW - 4 * HOUR, lower_bound=0.02)
    report = document(cost("-o", "json", "--record", written(tmp_path / "record", old)))
    assert report["lowerBoundPerHour"] is None
    assert [note for note in report["notes"] if note.startswith("The lower bound is not known")]
    assert [note for note in document(cost("-o", "json"))["notes"] if "lower bound" in note]


# A window


def ledger() -> list[Entry]:
    """Two hours: a node that ran for the first, and another one that runs still, with two entries of an hour."""
    start = NOW - 2 * HOUR
    return [
        a_launch(LIVING, price=0.1, launched_at=start, pool="web", claim="web-00001"),
        a_removal(
            "i-gone", price=0.4, launched_at=start - HOUR, ended_at=start + HOUR, pool="web", capacity_type="spot"
        ),
        an_entry(start, start + HOUR, a_row("shop", 3.0, pool="web"), a_row("bank", 1.0, pool="web")),
        an_entry(start + HOUR, NOW, a_row("bank", 1.0, pool="web"), a_row("", 1.0, pool="web", of="idle")),
        CommandEndEntry(id="end/1", at=start + HOUR, cluster="test", command="c", reason="Underutilized", reached=0.25),
        CommandEndEntry(
            id="end/2", at=start + HOUR, cluster="test", command="d", reason="Underutilized", reached=-0.05
        ),
        CommandEndEntry(id="end/3", at=start, cluster="test", command="e", reason="Drifted", reached=1, failure="no"),
    ]


@pytest.fixture
def only_one(fleet: FakeFleet) -> None:
    """Only the first node runs."""
    del fleet.objects[CLAIMS][1:]


def window(cost: Cost, record: str, *arguments: str) -> dict[str, Any]:
    until = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    return document(cost("--since", "2h", "--to", until, "--record", record, "-o", "json", *arguments))


@pytest.mark.usefixtures("only_one")
def test_a_window_is_the_bill_of_its_instances_divided_by_the_entries(cost: Cost, tmp_path: Path) -> None:
    report = window(cost, written(tmp_path / "record", *ledger()))
    assert by_name(report) == {"shop": 0.375, "bank": 0.175, "(idle)": 0.05}
    assert report["total"] == {"cost": 0.6, "costPerHour": 0.3}
    assert (report["nodes"], report["spotShare"]) == (2, pytest.approx(0.4 / 0.6, abs=1e-6))


def test_a_warm_node_that_is_stopped_now_cost_its_full_price_while_it_ran(
    cost: Cost, fleet: FakeFleet, tmp_path: Path
) -> None:
    """The record lacks its launch, which was before the window."""
    fleet.objects[CLAIMS].clear()
    stopped = {"tenon.sh/warm": "stopped", "tenon.sh/stopped-times": format_instant(NOW - HOUR) + "/"}
    fleet.node(4, "warm", "m5.large", meta={"annotations": stopped})
    report = window(cost, written(tmp_path / "record"), "--by", "pool")
    fleet.objects[CLAIMS].clear()
    fleet.node(5, "web", "m5.large")
    price = by_name(document(cost("--by", "pool", "-o", "json")), "costPerHour")["web"]
    assert by_name(report) == {"warm": pytest.approx(price)}


@pytest.mark.usefixtures("only_one")
def test_the_lower_bound_of_a_window_is_the_mean_of_its_entries(cost: Cost, tmp_path: Path) -> None:
    start = NOW - 2 * HOUR
    bounds = [
        an_entry(start, start + HOUR / 2, lower_bound=0.1),
        an_entry(start + HOUR / 2, NOW, lower_bound=0.02),
    ]
    report = window(cost, written(tmp_path / "record", *ledger(), *bounds))
    assert report["lowerBoundPerHour"] == pytest.approx((0.1 * 0.5 + 0.02 * 1.5) / 2)
    partly = window(cost, written(tmp_path / "late", *ledger(), bounds[0]))
    assert partly["lowerBoundPerHour"] is None, "the bound of a part is no bound of the whole"


@pytest.mark.usefixtures("only_one")
@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("pool", {"web": 0.6}),
        ("capacity-type", {"spot": 0.4, "on-demand": 0.2}),
        ("type", {"m5.large": 0.6}),
        ("zone", {"us-west-2a": 0.6}),
        (
            "workload",
            {"shop/(pods without a controller)": 0.375, "bank/(pods without a controller)": 0.175, "(idle)": 0.05},
        ),
    ],
)
def test_a_window_can_be_grouped_by_what_instances_are(
    cost: Cost, tmp_path: Path, by: str, rows: dict[str, float]
) -> None:
    assert by_name(window(cost, written(tmp_path / "record", *ledger()), "--by", by)) == rows


@pytest.mark.usefixtures("only_one")
def test_savings_of_commands_are_added_up_by_reason_and_undone_commands_save_nothing(
    cost: Cost, tmp_path: Path
) -> None:
    report = window(cost, written(tmp_path / "record", *ledger()))
    assert report["savings"] == [{"reason": "Underutilized", "commands": 2, "dollarsPerHour": 0.2}]
    shown = cost("--since", "3h", "--record", str(tmp_path / "record"))
    assert "2 commands for Underutilized save $0.2000 an hour." in shown.stdout


@pytest.mark.usefixtures("only_one")
def test_a_label_of_a_window_is_that_of_the_workloads_pods_now(cost: Cost, tmp_path: Path) -> None:
    entries = ledger()
    entries[2] = an_entry(NOW - 2 * HOUR, NOW - HOUR, a_row("shop", pool="web", workload="StatefulSet/web"))
    rows = by_name(window(cost, written(tmp_path / "record", *entries), "--by", "label:team"))
    assert rows == {"blue": 0.5, "(without the label)": 0.05, "(idle)": 0.05}


@pytest.mark.usefixtures("only_one")
def test_a_window_without_entries_is_unmeasured_but_its_cost_is_known(cost: Cost, tmp_path: Path) -> None:
    entries = [entry for entry in ledger() if not entry.id.startswith("cost")]
    report = window(cost, written(tmp_path / "record", *entries))
    assert by_name(report) == {"(unmeasured)": 0.6}


def test_a_window_that_ends_now_counts_what_runs_and_divides_it_as_pods_request_now(
    cost: Cost, fleet: FakeFleet, tmp_path: Path
) -> None:
    del fleet.objects[CLAIMS][1:]
    record = written(tmp_path / "record", a_launch(LIVING, price=0.1, launched_at=NOW - HOUR, pool="web"))
    report = document(cost("--since", "1h", "--record", record, "-o", "json"))
    assert report["total"]["cost"] == pytest.approx(0.1, rel=0.05)
    assert by_name(report).keys() == {"shop", "(idle)"}
    assert any("as pods request room now" in note for note in report["notes"])


def test_an_instance_whose_end_is_missing_is_named(cost: Cost, fleet: FakeFleet, tmp_path: Path) -> None:
    fleet.objects[CLAIMS].clear()
    record = written(tmp_path / "record", a_launch("i-lost", price=0.6, launched_at=NOW - HOUR))
    report = document(cost("--since", "2h", "--record", record, "-o", "json"))
    assert report["total"]["cost"] == pytest.approx(0.01)
    assert any("i-lost" in note for note in report["notes"])


def test_a_window_is_shown_without_a_cluster(cost: Cost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    report = window(cost, written(tmp_path / "record", *ledger()))
    assert report["total"]["cost"] == 0.6
    assert any("launched before the window" in note for note in report["notes"])


@pytest.mark.usefixtures("only_one")
def test_the_export_has_the_cost_of_the_window(cost: Cost, tmp_path: Path) -> None:
    target = tmp_path / "focus.csv"
    record = written(tmp_path / "record", *ledger())
    report = window(cost, record, "--export", str(target), "--billing-account", "123456789012", "--cluster", "test")
    rows = list(csv.DictReader(target.open()))
    assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal(str(report["total"]["cost"]))
    assert {row["RegionId"] for row in rows} == {"eu-central-1"}
    assert {row["BillingAccountId"] for row in rows} == {"123456789012"}
    assert {row["x_Cluster"] for row in rows} == {"test"}


@pytest.mark.usefixtures("only_one")
def test_entries_of_several_clusters_are_not_added_up(cost: Cost, tmp_path: Path) -> None:
    other = [evolve(entry, cluster="other", id=f"other/{entry.id}") for entry in ledger()]
    record = written(tmp_path / "record", *ledger(), *other)
    for arguments in (("--since", "3h"), ("-o", "json")):
        result = cost("--record", record, *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == "The record has the clusters other, test: name one with --cluster.\n"
    report = window(cost, record, "--cluster", "test")
    assert report["total"] == {"cost": 0.6, "costPerHour": 0.3}


@pytest.mark.usefixtures("only_one")
def test_entries_whose_time_has_no_zone_do_not_count(cost: Cost, tmp_path: Path) -> None:
    record = written(
        tmp_path / "record", *ledger(), evolve(ledger()[1], id="x", at=NOW.replace(tzinfo=None) + 9 * HOUR)
    )
    report = window(cost, record)
    assert report["total"] == {"cost": 0.6, "costPerHour": 0.3}
    assert "1 entry of the record has a time without a zone, and does not count" in report["notes"]


def test_csv_leaves_notes_to_standard_error(cost: Cost, fleet: FakeFleet) -> None:
    notes = document(cost("-o", "json"))["notes"]
    result = cost("-o", "csv")
    assert result.stderr.splitlines() == [f"{note}." for note in notes]
    header = result.stdout.splitlines()[0]
    fleet.objects[CLAIMS].clear()
    empty = cost("-o", "csv")
    assert empty.stdout.splitlines() == ["name,kind,costPerHour,costPerMonth,share"]
    assert header.startswith(empty.stdout.rstrip())


@pytest.mark.usefixtures("only_one")
def test_the_examples_of_the_help_work(cost: Cost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = written(tmp_path / "record", *ledger())
    monkeypatch.chdir(tmp_path)
    examples = cost("--help").stdout.partition("Examples:")[2].splitlines()
    commands = [shlex.split(line)[2:] for line in examples if line.strip().startswith("tenon cost ")]
    assert len(commands) > 2
    for arguments in commands:
        result = cost(*arguments, "--record", record)
        assert result.exit_code == 0, result.stderr


# Options


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (("--by", "team"), "--by team is not known"),
        (("--by", "label:"), "--by label: is not known"),
        (("--since", "1h"), "No record is named"),
        (("--since", "soon"), "--since soon is not a duration"),
        (("--since", "999999d"), "--since 999999d is not a duration"),
        (("--since", "1h", "--from", "2026-01-01"), "--since and --from both name"),
        (("--to", "2026-01-01"), "--to is the end of a window"),
        (("--from", "yesterday"), "--from yesterday is not a time"),
        (("--from", "2999-01-01"), "The window from 2999-01-01"),
        (("--since", "1h", "--export", "x.csv", "--record", "r"), "--export needs a window"),
        (("--export", "x.csv", "--billing-account", "1"), "--export needs a window"),
        (("--since", "1h", "--record", "/missing/record"), "The record /missing/record cannot be read"),
    ],
)
def test_options_that_cannot_be_used_are_refused_in_a_sentence(
    cost: Cost, arguments: tuple[str, ...], start: str
) -> None:
    result = cost(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(start)


def test_a_window_ends_now_or_when_it_is_told_to() -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    assert read_window(None, None, None, now) is None
    ends_now = read_window("30d", None, None, now)
    assert ends_now is not None
    assert (ends_now.since, ends_now.until, ends_now.is_now) == (now - timedelta(days=30), now, True)
    past = read_window(None, "2026-01-01", "2026-01-02T06:00:00+02:00", now)
    assert past is not None
    assert (past.since.day, past.until, past.is_now) == (1, datetime(2026, 1, 2, 4, tzinfo=UTC), False)
    future = read_window("24h", None, "2026-01-31T12:00:00Z", now)
    assert future is not None
    assert (future.since, future.until, future.is_now) == (datetime(2026, 1, 30, 12, tzinfo=UTC), now, True)
    with pytest.raises(CostError, match="no time in the past"):
        read_window(None, "2026-01-02", "2026-01-01", now)


# On a terminal


@pytest.mark.parametrize("width", [60, 80, 120, 250])
@pytest.mark.parametrize("is_wide", [False, True])
def test_bars_fill_what_is_left_of_a_terminal_and_no_line_is_longer(width: int, *, is_wide: bool) -> None:
    amounts = {ConsumerKind.PODS: nanos(12.5), ConsumerKind.IDLE: nanos(3.25)}
    rows = [Row("shop/Deployment/a-rather-long-name-of-a-workload", nanos(15.75), None, amounts)]
    rows.append(Row("(idle)", nanos(4.25), ConsumerKind.IDLE, {ConsumerKind.IDLE: nanos(4.25)}))
    report = CostReport(Grouping(Dimension.WORKLOAD), rows, NOW, 0.5, 2, 0)
    console = Console(width=width, force_terminal=True, color_system=None, file=io.StringIO())
    console.print(table(report, width, is_wide=is_wide))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    text = "".join(lines)
    assert "█" in text
    if width >= 120:
        assert "20.0000" in text
        assert f"{20 * HOURS_A_MONTH:,.2f}" in text
