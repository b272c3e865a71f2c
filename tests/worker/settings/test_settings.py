"""Settings: where they come from, in which form, and what is said when they cannot be used."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.provisioning.gates import AwsFeatureGates, FeatureGates
from tenon.provisioning.planning_policy import PlanPolicy
from worker.settings import Settings, SettingsError, load, parse_duration


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine that runs the tests leaks in."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.delenv(name, raising=False)


def test_defaults_are_those_of_karpenter() -> None:
    """SET-01 to SET-30: a deployment that sets only CLUSTER_NAME behaves as people know it."""
    result = load(cluster_name="c")
    assert (result.batch_idle_duration, result.batch_max_duration) == (timedelta(seconds=1), timedelta(seconds=10))
    assert (result.metrics_port, result.health_probe_port) == (8080, 8081)
    assert (result.kube_client_qps, result.kube_client_burst) == (200, 300)
    assert result.vm_memory_overhead_percent == 0.075
    assert result.leader_election_name == "karpenter-leader-election"
    assert result.cost_interval == timedelta(minutes=15)
    assert result.garbage_collection_interval == timedelta(minutes=10)
    assert result.initialization_timeout == timedelta(hours=1)
    assert result.watch_silence_limit == timedelta(seconds=75)
    assert (result.preference_policy, result.min_values_policy, result.ignore_dra_requests) == (
        "Respect",
        "Strict",
        True,
    )
    assert result.plan_policy() == PlanPolicy()
    assert (result.ami_refresh_interval, result.subnet_refresh_interval) == (
        timedelta(minutes=10),
        timedelta(minutes=10),
    )
    assert (result.cpu_requests, result.memory_limit, result.reserved_enis) == (1000, -1, 0)
    assert (result.log_level, result.log_output_paths, result.log_error_output_paths) == (
        "info",
        ("stdout",),
        ("stderr",),
    )
    assert result.disable_controller_warmup is True
    for switch in (
        "enable_profiling",
        "disable_leader_election",
        "disable_cluster_state_observability",
        "isolated_vpc",
        "insecure_calendars",
        "eks_control_plane",
        "disable_dry_run",
        "enable_zonal_shift",
        "enable_commitments",
    ):
        assert getattr(result, switch) is False
    for text in (
        "scheduler_config",
        "leader_election_namespace",
        "karpenter_service",
        "cluster_endpoint",
        "cluster_ca_bundle",
        "interruption_queue",
    ):
        assert getattr(result, text) == ""
    assert result.feature_gates == FeatureGates()
    assert result.aws_feature_gates == AwsFeatureGates()


def test_what_bears_on_plans_reaches_them() -> None:
    """SET-03, SET-04, and our own two."""
    result = load(
        cluster_name="c",
        preference_policy="Ignore",
        min_values_policy="BestEffort",
        node_charge="0.1",
        max_workload_share_per_node="0.5",
        max_hourly_cost="40.5",
    )
    assert result.plan_policy() == PlanPolicy(True, True, node_charge=0.1, most_pods_share=0.5, max_hourly_cost=40.5)


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_NAME", "prod")
    monkeypatch.setenv("BATCH_MAX_DURATION", "1m30s")
    monkeypatch.setenv("DISABLE_LEADER_ELECTION", "true")
    result = load()
    assert (result.cluster_name, result.disable_leader_election) == ("prod", True)
    assert result.batch_max_duration == timedelta(seconds=90)


def test_flags_win_and_flags_that_were_not_given_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_NAME", "from-environment")
    monkeypatch.setenv("METRICS_PORT", "9000")
    result = load(cluster_name="from-flag", metrics_port=None)
    assert (result.cluster_name, result.metrics_port) == ("from-flag", 9000)


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts write empty values for what nobody set."""
    monkeypatch.setenv("BATCH_IDLE_DURATION", "")
    assert load(cluster_name="c").batch_idle_duration == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("1m30s", 90), ("2h", 7200), ("500ms", 0.5), ("1.5s", 1.5), ("0s", 0), ("15", 15), (" 3s ", 3)],
)
def test_durations_in_gos_form(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "ten", "-1s", "10 s", "1d", "s", "1m30", "1s!", "9" * 400 + "h", "9" * 30, "99999999h"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration"):
        parse_duration(text)


def test_the_longest_duration_can_be_added_to_a_date_of_today() -> None:
    """INITIALIZATION_TIMEOUT and the like are: a longer one would be a fault of every node's workflow."""
    assert datetime.now(UTC) + parse_duration("876000h") > datetime(2100, 1, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match=r"876000h"):
        parse_duration("876000h1s")
    with pytest.raises(SettingsError, match="INITIALIZATION_TIMEOUT"):
        load(cluster_name="c", initialization_timeout="99999999h")


def test_a_missing_cluster_name_is_one_sentence_that_says_what_to_do() -> None:
    with pytest.raises(SettingsError) as refused:
        load()
    assert str(refused.value) == "CLUSTER_NAME is required: set it in the environment or with --cluster-name."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_max_duration", "soon"),
        ("batch_max_duration", "9" * 400 + "h"),
        ("batch_max_duration", "5m1s"),
        ("batch_idle_duration", "11m"),
        ("metrics_port", "70000"),
        ("metrics_port", "http"),
        ("log_level", "chatty"),
        ("vm_memory_overhead_percent", "1"),
        ("kube_client_qps", "0"),
        ("disable_leader_election", "maybe"),
        ("cost_interval", "59s"),
        ("cost_interval", "25h"),
        ("garbage_collection_interval", "29s"),
        ("garbage_collection_interval", "25h"),
        ("initialization_timeout", "5s"),
        ("initialization_timeout", "eventually"),
        ("watch_silence_limit", "0"),
        ("watch_silence_limit", "11m"),
        ("preference_policy", "ignore"),
        ("min_values_policy", "Lax"),
        ("ignore_dra_requests", "perhaps"),
        ("feature_gates", "NodeOverlays=true"),
        ("feature_gates", "NodeOverlay"),
        ("feature_gates", "NodeOverlay=on"),
        ("aws_feature_gates", "NodeOverlay=true"),
        ("ami_refresh_interval", "59s"),
        ("subnet_refresh_interval", "1ms"),
        ("cpu_requests", "-1"),
        ("memory_limit", "2Gi"),
        ("reserved_enis", "1.5"),
        ("kube_client_burst", "0"),
        ("log_output_paths", "stdout,"),
        ("cluster_endpoint", "10.0.0.1:443"),
        ("cluster_ca_bundle", "-----BEGIN CERTIFICATE-----"),
        ("webhook_port", "0"),
        ("webhook_url", "http://worker.example.com"),
        ("node_charge", "-0.01"),
        ("node_charge", "nan"),
        ("node_charge", "1e9"),
        ("max_workload_share_per_node", "0"),
        ("max_workload_share_per_node", "50"),
        ("max_workload_share_per_node", "half"),
        ("max_hourly_cost", "-1"),
        ("max_hourly_cost", "1000001"),
    ],
)
def test_a_malformed_value_is_one_sentence_with_its_name_and_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("CLUSTER_NAME", "c")
    monkeypatch.setenv(name.upper(), value)
    with pytest.raises(SettingsError) as refused:
        load()
    (sentence,) = str(refused.value).splitlines()
    assert sentence.startswith(f"{name.upper()}={value!r} cannot be used: ")
    assert sentence.endswith(".")
    assert "Value error" not in sentence


def test_every_fault_is_reported_at_once() -> None:
    """Nobody wants to mend settings one restart at a time."""
    with pytest.raises(SettingsError) as refused:
        load(metrics_port="x", log_level="y")
    assert len(str(refused.value).splitlines()) == 3


WINDOWS = st.integers(0, 300 * 10**6).map(lambda count: timedelta(microseconds=count))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "cluster_name": st.from_regex(r"[a-z0-9][-a-z0-9_.]{0,60}", fullmatch=True),
    "cluster_endpoint": st.sampled_from(["", "https://10.0.0.1:443"]),
    "batch_idle_duration": WINDOWS,
    "batch_max_duration": WINDOWS,
    "vm_memory_overhead_percent": st.floats(0, 0.99),
    "reserved_enis": st.integers(0, 10),
    "cost_interval": st.integers(60, 86400).map(lambda count: timedelta(seconds=count)),
    "garbage_collection_interval": st.integers(30, 86400).map(lambda count: timedelta(seconds=count)),
    "initialization_timeout": st.one_of(st.none(), st.integers(10, 10**6).map(lambda count: timedelta(seconds=count))),
    "watch_silence_limit": st.integers(1000, 600_000).map(lambda count: timedelta(milliseconds=count)),
    "preference_policy": st.sampled_from(["Respect", "Ignore"]),
    "min_values_policy": st.sampled_from(["Strict", "BestEffort"]),
    "ignore_dra_requests": st.booleans(),
    "node_charge": st.floats(0, 1000),
    "max_workload_share_per_node": st.floats(0, 1, exclude_min=True),
    "max_hourly_cost": st.floats(0, 1_000_000),
    "feature_gates": st.builds(FeatureGates, st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    "aws_feature_gates": st.builds(AwsFeatureGates, st.booleans()),
    "isolated_vpc": st.booleans(),
    "cluster_ca_bundle": st.binary(max_size=20).map(lambda data: base64.b64encode(data).decode()),
    "ami_refresh_interval": st.integers(60, 10**7).map(lambda count: timedelta(seconds=count)),
    "cpu_requests": st.floats(0, 10**6),
    "memory_limit": st.integers(-1, 2**40),
    "log_output_paths": st.sampled_from([("stdout",), ("stderr", "/tmp/a.log")]),
    "record_sinks": st.sampled_from(["stdout", "none", "stdout,s3://archive/tenon"]),
    "stand_by_namespaces": st.sampled_from(["karpenter", "kube-system,nodes"]),
    "webhook_url": st.sampled_from(["", "https://10.0.0.1:8443"]),
    "disable_leader_election": st.booleans(),
    "log_level": st.sampled_from(["debug", "info", "warn", "error"]),
}


@pytest.mark.parametrize("text", ["0", "0s", "Never", "never"])
def test_initialization_may_have_no_timeout(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """QRK-10: Karpenter waits for ever, and who relies on that can have it."""
    monkeypatch.setenv("INITIALIZATION_TIMEOUT", text)
    assert load(cluster_name="c").initialization_timeout is None


def test_ops04_a_lease_counts_in_the_own_namespace_and_in_those_of_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(cluster_name="c").namespaces_of_rivals() == ("tenon", "kube-system", "karpenter")
    monkeypatch.setenv("STAND_BY_NAMESPACES", "nodes, infra")
    assert load(cluster_name="c").namespaces_of_rivals() == ("tenon", "nodes", "infra")
    monkeypatch.setenv("STAND_BY_NAMESPACES", "kube-system;nodes")
    with pytest.raises(SettingsError, match="not the name of a namespace"):
        load(cluster_name="c")


@given(st.fixed_dictionaries(VALUES))
def test_child_processes_read_back_what_their_parent_has(values: dict[str, Any]) -> None:
    """Parent and children with different settings would plan by other rules than are shown."""
    settings = Settings(**values)
    with pytest.MonkeyPatch.context() as patch:
        for name, text in settings.as_environment().items():
            patch.setenv(name, text)
        assert load() == settings


def test_the_namespace_of_the_lease_can_be_set() -> None:
    assert load(cluster_name="c", leader_election_namespace="apps").namespace() == "apps"
    assert load(cluster_name="c").namespace() == "tenon"
