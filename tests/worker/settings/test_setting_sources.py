"""Where settings come from, and what is said of those that nobody should count on."""

from __future__ import annotations

import json

import pytest

from tenon.apis.legacy.global_settings import convert_settings
from tenon.provisioning.gates import AWS_GATES, GATES
from worker.runtime.leader.legacy_serving import defaults_of
from worker.settings import Settings, SettingsError, load_all
from worker.settings.effects import GATES_WITHOUT_EFFECT, WITHOUT_EFFECT

NAMED = {"CLUSTER_NAME": "prod"}


def config_map(data: dict[str, str]) -> dict[str, object]:
    name = "config-logging" if "zap-logger-config" in data else "karpenter-global-settings"
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_flags_override_environment_config_map_and_default_in_this_order() -> None:
    """LEG-50, LEG-51: settings that never left their ConfigMap count, as the lowest."""
    old = convert_settings(
        config_map(
            {"batchIdleDuration": "2s", "batchMaxDuration": "20s", "aws.reservedENIs": "1", "aws.isolatedVPC": ""}
        )
    )
    document = load_all(
        {"batch_idle_duration": "4s"}, {**NAMED, "BATCH_IDLE_DURATION": "3s", "RESERVED_ENIS": "2"}, old
    )
    assert (document.settings.batch_idle_duration.seconds, document.sources["batch_idle_duration"]) == (4, "flag")
    assert (document.settings.reserved_enis, document.sources["reserved_enis"]) == (2, "environment")
    assert (document.settings.batch_max_duration.seconds, document.sources["batch_max_duration"]) == (20, "ConfigMap")
    assert (document.settings.isolated_vpc, document.sources["isolated_vpc"]) == (False, "default")


def test_leg51_a_cluster_may_be_named_by_the_config_map_alone() -> None:
    old = convert_settings(config_map({"aws.clusterName": "old", "aws.vmMemoryOverheadPercent": "0.05"}))
    settings = load_all({}, {}, old).settings
    assert (settings.cluster_name, settings.vm_memory_overhead_percent) == ("old", 0.05)


def test_leg52_removed_config_map_keys_are_noted_and_the_default_profile_is_kept() -> None:
    old = convert_settings(config_map({"aws.defaultInstanceProfile": "nodes", "aws.enablePodENI": "true"}))
    document = load_all({}, NAMED, old)
    assert document.settings.default_instance_profile == "nodes"
    assert any(note.startswith("aws.enablePodENI no longer exists: ") for note in document.notes)


def test_leg52_config_map_tags_reach_old_node_templates_in_every_process() -> None:
    old = convert_settings(config_map({"aws.tags": '{"team": "a", "karpenter.sh/nodepool": "x"}', "aws.tags.é": "b"}))
    document = load_all({}, NAMED, old)
    assert document.sources["default_tags"] == "ConfigMap"
    assert any("'karpenter.sh/nodepool' of aws.tags is left out" in note for note in document.notes)
    child = load_all({}, document.settings.as_environment()).settings
    assert defaults_of(child, "1.29").tags == {"team": "a", "é": "b"}
    over = load_all({}, {**NAMED, "DEFAULT_TAGS": '{"own": "1"}'}, old).settings
    assert defaults_of(over, "1.29").tags == {"own": "1"}
    assert defaults_of(load_all({}, {**NAMED, "DEFAULT_TAGS": "{}"}, old).settings, "1.29").tags == {}
    assert defaults_of(load_all({}, NAMED).settings, "1.29").tags == {}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("team=a", 'it is not a JSON object of strings, such as {"team": "a"}.'),
        ('{"team": 1}', 'it is not a JSON object of strings, such as {"team": "a"}.'),
        (
            '{"kubernetes.io/cluster/c": "owned"}',
            "leave out the tag 'kubernetes.io/cluster/c', because it identifies the owner of an instance, and only "
            "the worker sets it.",
        ),
        (json.dumps({str(number): "" for number in range(51)}), "it has 51 tags, and an EC2NodeClass takes 50."),
    ],
)
def test_leg52_tags_that_no_class_takes_stop_the_worker(value: str, why: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_all({}, {**NAMED, "DEFAULT_TAGS": value})
    error_text = str(refused.value)
    assert error_text.startswith("DEFAULT_TAGS=")
    assert error_text.endswith(f" cannot be used: {why}")
    assert "\n" not in error_text


def test_a_malformed_value_of_a_config_map_says_where_it_is() -> None:
    with pytest.raises(SettingsError) as refused:
        load_all({}, NAMED, convert_settings(config_map({"batchIdleDuration": "soon"})))
    assert str(refused.value).startswith("BATCH_IDLE_DURATION='soon' of the old ConfigMaps cannot be used: ")


def test_a_malformed_value_that_another_one_beats_does_not_matter() -> None:
    old = convert_settings(config_map({"batchIdleDuration": "soon"}))
    assert load_all({}, {**NAMED, "BATCH_IDLE_DURATION": "2s"}, old).settings.batch_idle_duration.seconds == 2


def test_the_old_logger_configuration_sets_level_and_paths() -> None:
    text = json.dumps({"level": "debug", "outputPaths": ["stdout"], "errorOutputPaths": ["stderr"]})
    assert load_all({}, NAMED, convert_settings(config_map({"zap-logger-config": text}))).settings.log_level == "debug"


@pytest.mark.parametrize("name", ["LOGGING_CONFIG", "ASSUME_ROLE_ARN", "ASSUME_ROLE_DURATION", "LEADER_ELECT"])
def test_v1b21_removed_settings_are_reported_and_ignored(name: str) -> None:
    (warning,) = load_all({}, {**NAMED, name: "x"}).warnings
    assert warning.startswith(f"{name} is no longer a setting and is ignored: ")


def test_v1b21_gat08_the_drift_gate_is_reported_and_ignored() -> None:
    (warning,) = load_all({}, {**NAMED, "FEATURE_GATES": "Drift=false,StaticCapacity=true"}).warnings
    assert warning == "The feature gate Drift no longer exists: drift is always on since Karpenter 1.0."


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("BATCH_MAX_DURATON", "BATCH_MAX_DURATION"),
        ("FEATURE_GATE", "FEATURE_GATES"),
        ("METRIC_PORT", "METRICS_PORT"),
        ("KARPENTER_CLUSTER_NAME", "CLUSTER_NAME"),
        ("TENON_LOG_LEVEL", "LOG_LEVEL"),
    ],
)
def test_a_slip_of_the_pen_stops_the_worker(name: str, meant: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_all({}, {**NAMED, name: "8080"})
    assert str(refused.value).startswith(f"Unknown setting {name}: did you mean {meant}? ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KARPENTER_SERVICE_HOST", "10.0.0.1"),
        ("KARPENTER_SERVICE_PORT_HTTP_METRICS", "8080"),
        ("METRIC_PORT", "tcp://10.0.0.1:8080"),
        ("METRIC_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("KARPENTER_VERSION", "1.9.0"),
        ("AWS_REGION", "us-west-2"),
        ("TENON_REPORT_FD", "5"),
        ("PATH", "/bin"),
    ],
)
def test_variables_of_others_are_none_of_our_business(name: str, value: str) -> None:
    assert load_all({}, {**NAMED, name: value}).warnings == []


def test_n15_202_terminate_first_of_repair_needs_repair_as_a_method() -> None:
    gate = "TerminateFirstRepair=true"
    for alone in ({"FEATURE_GATES": gate}, {"FEATURE_GATES": f"NodeRepair=true,{gate}", "LEGACY_NODE_REPAIR": "true"}):
        warnings = load_all({}, {**NAMED, **alone}).warnings
        assert any(f"The feature gate {gate} has no effect" in warning for warning in warnings)
    warnings_of_both = load_all({}, {**NAMED, "FEATURE_GATES": f"NodeRepair=true,{gate}"}).warnings
    assert not any("TerminateFirstRepair" in warning for warning in warnings_of_both)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("IGNORE_DRA_REQUESTS", "false"),
        ("DISABLE_CONTROLLER_WARMUP", "false"),
        ("AWS_FEATURE_GATES", "DRAEFA=true"),
    ],
)
def test_what_steers_nothing_yet_is_accepted_and_said(name: str, value: str) -> None:
    """SET-05, SET-13, SET-25."""
    (warning,) = load_all({}, {**NAMED, name: value}).warnings
    assert "has no effect in this version" in warning
    assert warning.endswith(".")


def test_gat01_gat02_a_gate_that_has_an_effect_gives_no_warning() -> None:
    """N15-471: and neither does the setting of the old node repair."""
    gates = {"FEATURE_GATES": "NodeRepair=true,ReservedCapacity=false"}
    for more in ({"AWS_FEATURE_GATES": "RebootForRepair=true"}, {"LEGACY_NODE_REPAIR": "true"}):
        assert load_all({}, {**NAMED, **gates, **more}).warnings == []


def test_n15_489_settings_of_node_repair_that_another_one_switches_off_are_said() -> None:
    reboots, legacy = {"AWS_FEATURE_GATES": "RebootForRepair=true"}, {"LEGACY_NODE_REPAIR": "true"}
    repairs = {"FEATURE_GATES": "NodeRepair=true"}
    assert load_all({}, {**NAMED, **reboots}).warnings == [
        "The feature gate RebootForRepair=true has no effect without the feature gate NodeRepair."
    ]
    assert load_all({}, {**NAMED, **legacy}).warnings == [
        "LEGACY_NODE_REPAIR=true has no effect without the feature gate NodeRepair."
    ]
    assert load_all({}, {**NAMED, **repairs, **reboots, **legacy}).warnings == [
        "The feature gate RebootForRepair=true has no effect with LEGACY_NODE_REPAIR=true."
    ]


def test_the_environment_of_karpenter_1_15_starts_a_worker_without_a_warning() -> None:
    """N15-471, N15-473, N15-474, N15-475, N15-497: its chart writes all gates, at their defaults."""
    environment = {
        "FEATURE_GATES": "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,"
        "StaticCapacity=false,CapacityBuffer=false,TerminateFirstDrift=false,TerminateFirstRepair=false,"
        "PodDeletionCostManagement=false",
        "AWS_FEATURE_GATES": "NodeClassCEL=false,DRANVIDIAGPU=false,DRAEFA=false,RebootForRepair=false",
        "SECURITY_GROUP_REFRESH_INTERVAL": "1m",
        "LEGACY_NODE_REPAIR": "false",
    }
    assert load_all({}, {**NAMED, **environment}).warnings == []


def test_a_gate_of_a_version_to_come_is_ignored_while_it_is_false() -> None:
    (warning,) = load_all({}, {**NAMED, "FEATURE_GATES": "WarpDrive=false"}).warnings
    assert warning == "The feature gate WarpDrive is unknown and ignored. It is false, so nothing changes."


def test_defaults_are_no_reason_for_a_warning() -> None:
    environment = {**NAMED, **Settings(cluster_name="prod").as_environment()}
    assert load_all({}, environment).warnings == []


@pytest.mark.parametrize(
    ("ports", "error_text"),
    [
        ({"METRICS_PORT": "8081"}, "METRICS_PORT and HEALTH_PROBE_PORT are 8081: give each a different port."),
        (
            {"METRICS_PORT": "9", "HEALTH_PROBE_PORT": "9", "WEBHOOK_PORT": "9"},
            "METRICS_PORT and HEALTH_PROBE_PORT and WEBHOOK_PORT are 9: give each a different port.",
        ),
    ],
)
def test_two_servers_on_one_port_stop_the_worker(ports: dict[str, str], error_text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_all({}, {**NAMED, **ports})
    assert str(refused.value) == error_text


@pytest.mark.parametrize(
    "ports",
    [{"METRICS_PORT": "8443", "DISABLE_WEBHOOK": "true"}, {"METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0"}],
)
def test_ports_of_servers_that_do_not_meet_are_taken(ports: dict[str, str]) -> None:
    assert load_all({}, {**NAMED, **ports}).settings.metrics_port == int(ports["METRICS_PORT"])


def test_what_is_said_to_have_no_effect_exists() -> None:
    assert WITHOUT_EFFECT.keys() <= Settings.model_fields.keys()
    assert GATES_WITHOUT_EFFECT.keys() <= GATES.keys() | AWS_GATES.keys()


def test_who_puts_the_webhook_off_hears_what_it_costs() -> None:
    """Values written for an older Karpenter say so of another webhook."""
    (warning,) = load_all({}, {"CLUSTER_NAME": "c", "DISABLE_WEBHOOK": "true"}).warnings
    assert "v1beta1 cannot be read" in warning
    assert load_all({}, {"CLUSTER_NAME": "c", "DISABLE_WEBHOOK": "false"}).warnings == []


COLLECTOR = {**NAMED, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}


@pytest.mark.parametrize(
    ("environment", "variable", "endpoint"),
    [
        (
            {**COLLECTOR, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ),
        (
            {
                **NAMED,
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4317",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
            },
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        ),
        (
            {**NAMED, "RECORD_SINKS": "stdout,otlp", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ),
    ],
)
def test_otlp_over_grpc_is_refused_in_a_sentence_that_says_what_to_set(
    environment: dict[str, str], variable: str, endpoint: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load_all({}, environment)
    assert str(refused.value) == (
        f"{variable}='grpc' is not supported, because Tenon sends OTLP over HTTP with protobuf only: "
        f"set it to http/protobuf, and {endpoint} to the collector's HTTP port, usually 4318."
    )


@pytest.mark.parametrize(
    "environment",
    [
        {**COLLECTOR, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        {**COLLECTOR, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
        {**COLLECTOR, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_SDK_DISABLED": "true"},
        {**NAMED, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_a_protocol_that_nothing_uses_is_no_error(environment: dict[str, str]) -> None:
    assert load_all({}, environment).settings.cluster_name == "prod"
