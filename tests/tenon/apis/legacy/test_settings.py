"""The ConfigMaps of settings under their present names (LEG-50 to LEG-52)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenon.apis.legacy.config_maps import is_settings
from tenon.apis.legacy.conversion import Note
from tenon.apis.legacy.global_settings import Settings, convert_settings, merged


def settings(name: str = "karpenter-global-settings", **data: Any) -> Settings:
    values = {key.replace("__", "."): value for key, value in data.items()}
    return convert_settings({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": values})


def test_leg50_leg51_settings_have_the_names_of_the_worker() -> None:
    result = settings(
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
    assert result.values == {
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
    assert "aws.clusterName is CLUSTER_NAME now" in result.notes


def test_leg50_to_leg52_dropped_settings_are_reported_with_what_to_do() -> None:
    data = {
        "featureGates__driftEnabled": "true",
        "aws__assumeRoleARN": "arn",
        "aws__assumeRoleDuration": "15m",
        "aws__enablePodENI": "false",
        "aws__enableENILimitedPodDensity": "true",
    }
    result = settings(**data)
    assert result.values == {}
    for key in data:
        assert any(note.startswith(f"{key.replace('__', '.')} no longer exists: ") for note in result.notes)


def test_leg52_defaults_of_all_classes_become_settings_of_the_worker() -> None:
    result = settings(aws__defaultInstanceProfile="p", aws__tags='{"team": "a"}', aws__tags__cost="1")
    assert result.values == {"DEFAULT_INSTANCE_PROFILE": "p", "DEFAULT_TAGS": '{"team": "a", "cost": "1"}'}
    assert result.notes == (
        "aws.defaultInstanceProfile is DEFAULT_INSTANCE_PROFILE now",
        "aws.tags is DEFAULT_TAGS now",
        "aws.tags.cost is DEFAULT_TAGS now",
    )
    assert result.defaults.instance_profile == "p"


def test_leg52_tags_are_read_together_and_one_with_a_key_of_its_own_wins() -> None:
    result = settings(aws__tags__team="b", aws__tags='{"team": "a", "cost": "1"}')
    assert result.defaults.tags == {"team": "b", "cost": "1"}
    for empty in ("", "{}", " {} "):
        assert settings(aws__tags=empty).defaults.tags == {}
    assert settings("other", batchMaxDuration="1s").defaults.tags == {}


@pytest.mark.parametrize(
    "value",
    ["team=a", "[]", "5", "{", '{"a": 1}', '{"a": null}', '{"a": {"b": "c"}}', '{"a": "\\ud800"}', "[" * 200_000],
    ids=lambda value: value[:9],
)
def test_leg52_tags_that_are_no_object_of_texts_are_left_out_with_a_sentence(value: str) -> None:
    result = settings(aws__tags=value, aws__tags__team="a")
    assert (result.defaults.tags, result.problems) == ({"team": "a"}, ())
    (note,) = [note for note in result.notes if note.startswith("aws.tags ")]
    assert note == 'aws.tags is left out: it is not a JSON object of strings, such as {"team": "a"}'
    assert isinstance(note, Note)
    assert note.path == "data[aws.tags]"


@pytest.mark.parametrize(
    "tag",
    [
        "kubernetes.io/cluster/prod",
        "aws:team",
        "a" * 129,
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
        "karpenter.k8s.aws/ec2nodeclass",
        "eks:eks-cluster-name",
        "karpenter.sh/provisioner-name",
        "karpenter.sh/managed-by",
        "",
    ],
)
def test_leg52_a_tag_that_no_class_may_have_is_left_out_and_the_others_stay(tag: str) -> None:
    """LEG-39: else each class would be invalid by what it does not say."""
    result = settings(aws__tags=json.dumps({tag: "x", "team": "a"}))
    assert (result.defaults.tags, result.problems) == ({"team": "a"}, ())
    (note,) = [note for note in result.notes if "is left out" in note]
    assert note.startswith(f"the tag {tag!r} of aws.tags is left out: ")
    alone = settings(**{f"aws__tags__{tag}": "x"})
    assert (alone.defaults.tags, alone.values) == ({}, {})
    assert f"the tag {tag!r} of aws.tags is left out" in "; ".join(alone.notes)


def test_leg52_more_tags_than_a_class_may_have_are_left_out() -> None:
    one_by_one: dict[str, Any] = {f"aws__tags__t{number}": "x" for number in range(51)}
    for value in (one_by_one, {"aws__tags": json.dumps({f"t{number}": "x" for number in range(51)})}):
        result = settings(**value)
        assert (result.defaults.tags, result.values) == ({}, {})
        assert result.notes == ("aws.tags is left out: it has 51 tags, and an EC2NodeClass takes 50",)


def test_leg52_of_two_config_maps_the_later_says_the_tags() -> None:
    first, second = settings(aws__tags='{"a": "1"}', aws__clusterName="c"), settings(aws__tags='{"b": "2"}')
    assert merged([first, second]).defaults.tags == {"b": "2"}
    assert merged([second, settings(batchMaxDuration="1s")]).defaults.tags == {"b": "2"}
    assert merged([first, second]).defaults.cluster == "c"


def test_the_logger_becomes_log_settings() -> None:
    text = '{"level": "debug", "outputPaths": ["stdout", "f"], "errorOutputPaths": ["stderr"], "encoding": "console"}'
    result = settings("config-logging", **{"zap-logger-config": text, "loglevel__webhook": "error"})
    assert result.values == {"LOG_LEVEL": "debug", "LOG_OUTPUT_PATHS": "stdout,f", "LOG_ERROR_OUTPUT_PATHS": "stderr"}
    assert any("loglevel.webhook no longer exists" in note for note in result.notes)
    for broken in ("{ # comment\n}", "[]", "5"):
        events = settings("config-logging", **{"zap-logger-config": broken})
        assert events.values == {}
        assert "not a JSON object" in events.notes[0]


def test_what_is_no_setting_is_said_and_what_is_no_text_is_a_problem() -> None:
    assert settings(colour="blue").notes == ("colour is not a setting of Karpenter",)
    assert "data.batchMaxDuration" in str(settings(batchMaxDuration=10).problems[0])


def test_only_the_two_config_maps_are_settings() -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config-logging"}}
    assert is_settings(manifest)
    others: list[dict[str, Any]] = [
        {"metadata": {"name": "x"}},
        {"kind": "Secret"},
        {"metadata": []},
        {"apiVersion": "v2"},
    ]
    for other in others:
        assert not is_settings(manifest | other)
