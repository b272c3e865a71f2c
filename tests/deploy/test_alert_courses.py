"""When the chart's alerts fire during an incident, as Prometheus' own `promtool` evaluates them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ALERTS = Path(__file__).parents[2] / "deploy/chart/files/alerts.yaml"
PROMTOOL = shutil.which("promtool")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(PROMTOOL is None, reason="needs promtool: apt-get install prometheus"),
]


def promtool(*arguments: str) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def course(tmp_path: Path, alert: str, series: dict[str, str], *, fires: dict[str, list[dict[str, str]]]) -> None:
    """Check when an alert fires.

    Args:
        tmp_path: a folder for the file that promtool reads.
        alert: its name.
        series: what Prometheus scraped each minute, in promtool's notation.
        fires: by time, the labels of the alerts that fire then.
    """
    rules = yaml.safe_load(ALERTS.read_text())
    (rule,) = (rule for group in rules["groups"] for rule in group["rules"] if rule["alert"] == alert)
    severity = rule["labels"]["severity"]
    # Summaries have their own test. Without them, only the labels count here.
    rule.pop("annotations")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "one", "rules": [rule]}]}))
    expected: list[dict[str, Any]] = [
        {
            "eval_time": time,
            "alertname": alert,
            "exp_alerts": [{"exp_labels": {"severity": severity, **labels}} for labels in firing],
        }
        for time, firing in fires.items()
    ]
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": expected,
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    promtool("test", "rules", str(tmp_path / "test.yaml"))


def test_the_shipped_rules_are_valid() -> None:
    promtool("check", "rules", str(ALERTS))


def test_a_shortage_alerts_while_it_lasts_and_not_afterwards(tmp_path: Path) -> None:
    """EC2 refuses an offering again every three minutes, because Tenon avoids it for so long."""
    zone = {"zone": "us-west-2a", "capacity_type": "on-demand"}
    failures = (
        "karpenter_cloudprovider_instance_launch_failures_total"
        '{zone="us-west-2a",capacity_type="on-demand",reason="InsufficientCapacity"}'
    )
    values = "0+0x10 " + " ".join(f"{10 * step} {10 * step} {10 * step}" for step in range(1, 11)) + " 100x60"
    fires: dict[str, list[dict[str, str]]] = {"10m": [], "15m": [], "25m": [zone], "40m": [zone], "47m": [], "60m": []}
    course(tmp_path, "TenonFindsNoCapacity", {failures: values}, fires=fires)


def test_a_short_shortage_alerts_nobody_because_tenon_finds_other_capacity(tmp_path: Path) -> None:
    failures = (
        "karpenter_cloudprovider_instance_launch_failures_total"
        '{zone="a",capacity_type="spot",reason="InsufficientCapacity"}'
    )
    course(
        tmp_path,
        "TenonFindsNoCapacity",
        {failures: "0x10 20 40 60 80 80x60"},
        fires={f"{minute}m": [] for minute in range(10, 60, 5)},
    )


@pytest.mark.parametrize(
    ("method", "error", "fires"),
    [
        ("CreateLaunchTemplate", "InvalidLaunchTemplateName.AlreadyExistsException", False),
        ("CreateFleet", "InvalidLaunchTemplateName.NotFoundException", False),
        ("DescribeInstances", "InvalidInstanceID.NotFound", False),
        ("GetInstanceProfile", "NoSuchEntity", False),
        ("CreateFleet", "RequestLimitExceeded", True),
        ("CreateFleet", "UnauthorizedOperation", True),
        ("DescribeImages", "InvalidAMIID.NotFound", True),
    ],
)
def test_failing_calls_alert_and_answers_that_tenon_expects_do_not(
    tmp_path: Path, method: str, error: str, fires: bool
) -> None:
    name = f'karpenter_cloudprovider_errors_total{{method="{method}",error="{error}"}}'
    expected = [{"method": method, "error": error}] if fires else []
    course(tmp_path, "TenonAwsCallsFail", {name: "0+10x30"}, fires={"20m": expected})


def test_a_worker_that_starts_has_time_for_its_first_sweep(tmp_path: Path) -> None:
    """The gauge is 0 until then. promtool's clock begins at 0 too, so the worker starts two hours later."""
    name = "tenon_garbage_collection_last_success_timestamp_seconds"
    values = "_x119 0x9 7800x60 7800x60"
    fires: dict[str, list[dict[str, str]]] = {"121m": [], "129m": [], "180m": [], "230m": [{}]}
    course(tmp_path, "TenonSweepsDoNotWork", {name: values}, fires=fires)


def test_sweeps_that_never_succeed_alert_too(tmp_path: Path) -> None:
    name = "tenon_garbage_collection_last_success_timestamp_seconds"
    course(tmp_path, "TenonSweepsDoNotWork", {name: "_x119 0x60"}, fires={"130m": [], "140m": [{}]})


def test_the_first_run_that_a_version_cannot_replay_alerts(tmp_path: Path) -> None:
    """The series of its counter begins with it, and a second one may never come."""
    series = 'tenon_workflow_runs_ended_total{workflow="NodeClaimWorkflow",instance="a"}'
    workflow = [{"workflow": "NodeClaimWorkflow"}]
    fires: dict[str, list[dict[str, str]]] = {"8m": [], "9m": workflow, "23m": workflow, "24m": [], "60m": []}
    course(tmp_path, "TenonWorkflowRunsEnded", {series: "_x9 1x60"}, fires=fires)


def test_a_pause_that_is_forgotten_alerts_after_three_days(tmp_path: Path) -> None:
    labels = {"nodepool": "web", "disruptionfreeze": "pause-web"}
    series = 'tenon_nodepools_frozen{nodepool="web",disruptionfreeze="pause-web",instance="a"}'
    values = {series: "1x5000 0x200", 'leader_election_master_status{instance="a"}': "1x5200"}
    fires: dict[str, list[dict[str, str]]] = {"24h": [], "73h": [labels], "84h": []}
    course(tmp_path, "TenonDisruptionIsFrozenForLong", values, fires=fires)


def test_a_version_that_failed_alerts_until_it_is_resolved(tmp_path: Path) -> None:
    labels = {"nodepool": "web", "noderollout": "careful"}
    series = 'tenon_rollout_state{nodepool="web",noderollout="careful",state="%s",instance="a"}'
    values = {
        series % "progressing": "1x9 0x50",
        series % "rolling_back": "0x9 1x2 0x48",
        series % "rolled_back": "0x12 1x20 0x28",
        'leader_election_master_status{instance="a"}': "1x60",
    }
    fires: dict[str, list[dict[str, str]]] = {"9m": [], "20m": [labels], "32m": [labels], "40m": []}
    course(tmp_path, "TenonRolloutIsHalted", values, fires=fires)


def test_a_wave_that_waits_for_an_approval_alerts_after_an_hour(tmp_path: Path) -> None:
    series = 'tenon_rollout_state{nodepool="web",noderollout="careful",state="awaits_approval",instance="a"}'
    values = {series: "1x100 0x20", 'leader_election_master_status{instance="a"}': "1x120"}
    labels = {"nodepool": "web", "noderollout": "careful"}
    course(tmp_path, "TenonRolloutAwaitsApproval", values, fires={"50m": [], "70m": [labels], "110m": []})


def test_a_command_that_waits_for_a_person_for_eight_hours_alerts(tmp_path: Path) -> None:
    """Its wait grows by a minute a minute. A replica that no longer leads keeps its last values."""
    labels = {"nodepool": "web", "reason": "drifted"}
    name = "tenon_disruption_approvals_longest_wait_seconds"
    values = {
        name + '{nodepool="web",reason="drifted",instance="a"}': "0+60x600 0x200",
        name + '{nodepool="old",reason="drifted",instance="b"}': "90000x800",
        'leader_election_master_status{instance="a"}': "1x800",
        'leader_election_master_status{instance="b"}': "0x800",
    }
    fires: dict[str, list[dict[str, str]]] = {"7h": [], "9h": [labels], "11h": []}
    course(tmp_path, "TenonApprovalsWaitForLong", values, fires=fires)


def test_blocked_nodes_alert_after_ten_minutes_and_name_their_nodepool(tmp_path: Path) -> None:
    pool = [{"nodepool": "web"}]
    fires: dict[str, list[dict[str, str]]] = {"10m": [], "15m": pool, "29m": pool, "30m": []}
    series = {
        'tenon_nodeclaims_blocked{nodepool="web",instance="a"}': "0x4 2x24 0x30",
        'tenon_nodeclaims_blocked{nodepool="fine",instance="a"}': "0x60",
        'leader_election_master_status{instance="a"}': "1x60",
    }
    course(tmp_path, "TenonNodesNeedYou", series, fires=fires)


def test_blocked_nodes_that_an_earlier_leader_counted_alert_nobody(tmp_path: Path) -> None:
    """A replica that lost the Lease keeps its last count."""
    fires: dict[str, list[dict[str, str]]] = {"15m": [{"nodepool": "web"}], "25m": [], "50m": []}
    series = {
        'tenon_nodeclaims_blocked{nodepool="web",instance="a"}': "2x60",
        'leader_election_master_status{instance="a"}': "1x19 0x40",
        'tenon_nodeclaims_blocked{nodepool="web",instance="b"}': "_x20 0x40",
        'leader_election_master_status{instance="b"}': "0x19 1x40",
    }
    course(tmp_path, "TenonNodesNeedYou", series, fires=fires)


@pytest.mark.parametrize("leader", ["a", "b"])
def test_a_replica_that_led_before_does_not_alert_about_user_data(tmp_path: Path, leader: str) -> None:
    name = 'karpenter_ec2nodeclasses_userdata_bytes{nodeclass="large",instance="a"}'
    series = {name: "16000x20"}
    for instance in ("a", "b"):
        status = f'leader_election_master_status{{name="tenon",instance="{instance}"}}'
        series[status] = f"{int(instance == leader)}x20"
    fires = [{"nodeclass": "large"}] if leader == "a" else []
    course(tmp_path, "TenonUserDataIsNearlyTooLarge", series, fires={"10m": fires})


@pytest.mark.parametrize(
    ("alert", "gauge", "label", "fires_at"),
    [
        ("TenonSweepsWaitForYou", "tenon_garbage_collection_held_back", "kind", "25m"),
        ("TenonFinalizersOfOthersHoldNodeClaims", "tenon_nodeclaims_foreign_finalizers", "finalizer", "80m"),
    ],
)
@pytest.mark.parametrize("last", ["a", "b"])
def test_only_the_replica_that_swept_last_alerts_about_its_sweep(
    tmp_path: Path, alert: str, gauge: str, label: str, fires_at: str, last: str
) -> None:
    """Any replica may sweep, and what one has found may have ended in a sweep of the other."""
    series = {f'{gauge}{{{label}="x",instance="a"}}': "3x100"}
    for instance, time in (("a", 1000), ("b", 2000 if last == "b" else 500)):
        series[f'tenon_garbage_collection_last_success_timestamp_seconds{{instance="{instance}"}}'] = f"{time}x100"
    course(tmp_path, alert, series, fires={fires_at: [{label: "x"}] if last == "a" else []})
