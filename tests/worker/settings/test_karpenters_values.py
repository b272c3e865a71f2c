"""Karpenter's Deployment as values of Tenon's chart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from worker.settings.container_variables import config_map_names
from worker.settings.karpenters_values import translate

SCHEMA = Path("deploy/chart/values.schema.json")


NO_CONFIG_MAPS: dict[str, dict[str, str]] = {}


def deployment(*env: dict[str, Any], args: list[str] | None = None, **pod: Any) -> dict[str, Any]:
    container = {"name": "controller", "env": [*env], "args": args or []}
    spec = {"containers": [container], **pod}
    return {"metadata": {"name": "karpenter"}, "spec": {"replicas": 3, "template": {"spec": spec}}}


def variable(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


def assert_in_schema(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> None:
    for name, value in values.items():
        properties = schema.get("properties") or {}
        assert name in properties or schema.get("additionalProperties") is not False, f"{path}{name}"
        if isinstance(value, dict) and name in properties:
            assert_in_schema(value, properties[name], f"{path}{name}.")


def test_variables_become_values_that_the_chart_knows() -> None:
    result = translate(
        deployment(
            variable("CLUSTER_NAME", "prod"),
            variable("BATCH_MAX_DURATION", "20s"),
            variable("RESERVED_ENIS", "1"),
            variable("ISOLATED_VPC", "true"),
            variable("VM_MEMORY_OVERHEAD_PERCENT", "0.05"),
            variable("LOG_LEVEL", "debug"),
            variable("LOG_OUTPUT_PATHS", "stdout,/var/log/karpenter.log"),
            variable("METRICS_PORT", "8080"),
            variable("AWS_REGION", "us-west-2"),
            variable("FEATURE_GATES", "NodeRepair=true,ReservedCapacity=true,SpotToSpotConsolidation=false,Drift=true"),
            variable("AWS_FEATURE_GATES", "DRAEFA=true"),
            nodeSelector={"kubernetes.io/os": "linux"},
        ),
        NO_CONFIG_MAPS,
    )
    assert result.values == {
        "settings": {
            "clusterName": "prod",
            "batchMaxDuration": "20s",
            "reservedENIs": 1,
            "isolatedVPC": True,
            "vmMemoryOverheadPercent": 0.05,
            "featureGates": {"nodeRepair": True},
            "awsFeatureGates": {"draEFA": True},
        },
        "logLevel": "debug",
        "logOutputPaths": ["stdout", "/var/log/karpenter.log"],
        "controller": {"metrics": {"port": 8080}, "env": [variable("AWS_REGION", "us-west-2")]},
        "replicas": 3,
        "nodeSelector": {"kubernetes.io/os": "linux"},
    }
    assert_in_schema(result.values, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert any("Drift" in note for note in result.notes)
    assert any("AMI_REFRESH_INTERVAL is 1m" in note for note in result.notes)


@pytest.mark.parametrize("args", [["--cluster-name=prod"], ["--cluster-name", "prod"]])
def test_flags_win_over_variables(args: list[str]) -> None:
    result = translate(deployment(variable("CLUSTER_NAME", "other"), args=[*args, "--isolated-vpc"]), NO_CONFIG_MAPS)
    assert result.values["settings"] == {"clusterName": "prod", "isolatedVPC": True}


@pytest.mark.parametrize("text", ["$(PORT)", "http"])
def test_a_port_that_is_no_number_is_a_note(text: str) -> None:
    result = translate(deployment(variable("METRICS_PORT", text)), NO_CONFIG_MAPS)
    assert "controller" not in result.values
    assert f"METRICS_PORT is left out: {text} is no number" in result.notes


def test_what_must_not_be_taken_over_is_named() -> None:
    result = translate(
        deployment(
            variable("DISABLE_WEBHOOK", "true"),
            variable("DISABLE_LEADER_ELECTION", "true"),
            variable("ASSUME_ROLE_ARN", "arn:aws:iam::1:role/x"),
            variable("FEATURE_GATES", "SomethingNew=true"),
        ),
        NO_CONFIG_MAPS,
    )
    assert set(result.values) == {"replicas"}
    for name in ("DISABLE_WEBHOOK", "DISABLE_LEADER_ELECTION", "ASSUME_ROLE_ARN", "SomethingNew"):
        assert any(name in note for note in result.notes), name


def test_variables_of_config_maps_become_values_and_those_of_env_win() -> None:
    key = {"name": "CLUSTER_ENDPOINT", "valueFrom": {"configMapKeyRef": {"name": "cluster", "key": "endpoint"}}}
    body = deployment(variable("CLUSTER_NAME", "prod"), key)
    body["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [
        {"configMapRef": {"name": "settings"}},
        {"configMapRef": {"name": "batching"}, "prefix": "BATCH_"},
        {"configMapRef": {"name": "absent", "optional": True}},
    ]
    config_maps = {
        "settings": {"CLUSTER_NAME": "other", "BATCH_MAX_DURATION": "5s", "FEATURE_GATES": "NodeRepair=true"},
        "batching": {"MAX_DURATION": "20s"},
        "cluster": {"endpoint": "https://example.com"},
    }
    assert config_map_names(body) == {*config_maps, "absent"}
    assert translate(body, config_maps).values == {
        "settings": {
            "clusterName": "prod",
            "clusterEndpoint": "https://example.com",
            "batchMaxDuration": "20s",
            "featureGates": {"nodeRepair": True},
        },
        "replicas": 3,
    }


def test_variables_that_cannot_be_read_are_passed_on_and_named() -> None:
    sources = [{"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "absent"}}]
    secret = {"name": "HTTPS_PROXY", "valueFrom": {"secretKeyRef": {"name": "proxy", "key": "url"}}}
    body = deployment(secret, variable("NO_PROXY", "10.0.0.1"))
    body["spec"]["template"]["spec"]["containers"][0]["envFrom"] = sources
    result = translate(body, NO_CONFIG_MAPS)
    assert result.values["controller"] == {"env": [secret, variable("NO_PROXY", "10.0.0.1")], "envFrom": sources}
    assert any("Secret keys, ConfigMap absent" in note for note in result.notes)


def test_selectors_of_karpenters_own_pods_are_left_to_the_chart() -> None:
    """Its chart fills them in, as Tenon's does. In Tenon's pods they would select Karpenter's."""
    own = {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}

    def terms(selector: dict[str, Any], key: str = "zone") -> list[dict[str, Any]]:
        return [{"topologyKey": key, **selector}]

    def pod(of_karpenter: dict[str, Any]) -> dict[str, Any]:
        other = {"labelSelector": {"matchLabels": {"app": "temporal"}}}
        more = {"labelSelector": {"matchLabels": own, "matchExpressions": [{"key": "a", "operator": "Exists"}]}}
        return {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}},
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(other) + terms(of_karpenter)},
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": terms(of_karpenter, "host") + terms(more),
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": term} for term in terms(of_karpenter) + terms(other)
                    ],
                },
            },
            "topologySpreadConstraints": terms(of_karpenter) + terms(other),
        }

    body = deployment(**pod({"labelSelector": {"matchLabels": own}}))
    body["spec"]["selector"] = {"matchLabels": own}
    result = translate(body, NO_CONFIG_MAPS)
    assert {name: result.values[name] for name in ("affinity", "topologySpreadConstraints")} == pod({})
    assert body["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"], "only the values change"
