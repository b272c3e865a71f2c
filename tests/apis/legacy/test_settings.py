"""The ConfigMaps of settings under their present names (LEG-50 to LEG-52)."""

from __future__ import annotations

from typing import Any

from tenon.apis.legacy.global_settings import Settings, convert_settings, is_settings


def settings(name: str = "karpenter-global-settings", **data: Any) -> Settings:
    given = {key.replace("__", "."): value for key, value in data.items()}
    return convert_settings({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": given})


def test_leg50_leg51_settings_have_the_names_of_the_worker() -> None:
    found = settings(
        batchMaxDuration="10s",
        batchIdleDuration="1s",
        aws__clusterCABundle="x",
        aws__clusterName="foo",
        aws__clusterEndpoint="https://x",
        aws__isolatedVPC="true",
        aws__vmMemoryOverheadPercent="0.075",
        aws__interruptionQueueName="q",
        aws__reservedENIs="1",
    )
    assert found.values == {
        "BATCH_MAX_DURATION": "10s",
        "BATCH_IDLE_DURATION": "1s",
        "CLUSTER_CA_BUNDLE": "x",
        "CLUSTER_NAME": "foo",
        "CLUSTER_ENDPOINT": "https://x",
        "ISOLATED_VPC": "true",
        "VM_MEMORY_OVERHEAD_PERCENT": "0.075",
        "INTERRUPTION_QUEUE": "q",
        "RESERVED_ENIS": "1",
    }
    assert "aws.clusterName is CLUSTER_NAME now" in found.notes


def test_leg50_to_leg52_what_was_dropped_is_told_with_what_to_do() -> None:
    data = {
        "featureGates__driftEnabled": "true",
        "aws__assumeRoleARN": "arn",
        "aws__assumeRoleDuration": "15m",
        "aws__defaultInstanceProfile": "p",
        "aws__enablePodENI": "false",
        "aws__enableENILimitedPodDensity": "true",
        "aws__tags": "{}",
        "aws__tags__team": "a",
    }
    found = settings(**data)
    assert found.values == {}
    for key in data:
        assert any(note.startswith(f"{key.replace('__', '.')} is no more: ") for note in found.notes)
    assert found.defaults.instance_profile == "p"


def test_the_logger_becomes_log_settings() -> None:
    text = '{"level": "debug", "outputPaths": ["stdout", "f"], "errorOutputPaths": ["stderr"], "encoding": "console"}'
    found = settings("config-logging", **{"zap-logger-config": text, "loglevel__webhook": "error"})
    assert found.values == {"LOG_LEVEL": "debug", "LOG_OUTPUT_PATHS": "stdout,f", "LOG_ERROR_OUTPUT_PATHS": "stderr"}
    assert any("loglevel.webhook is no more" in note for note in found.notes)
    for broken in ("{ # comment\n}", "[]", "5"):
        told = settings("config-logging", **{"zap-logger-config": broken})
        assert told.values == {}
        assert "no JSON object" in told.notes[0]


def test_what_is_no_setting_is_said_and_what_is_no_text_is_a_problem() -> None:
    assert settings(colour="blue").notes == ("colour is no setting of Karpenter",)
    assert "data.batchMaxDuration" in str(settings(batchMaxDuration=10).problems[0])


def test_only_the_two_config_maps_are_settings() -> None:
    known = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config-logging"}}
    assert is_settings(known)
    others: list[dict[str, Any]] = [
        {"metadata": {"name": "x"}},
        {"kind": "Secret"},
        {"metadata": []},
        {"apiVersion": "v2"},
    ]
    for other in others:
        assert not is_settings(known | other)
