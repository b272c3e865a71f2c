"""AWSNodeTemplate as EC2NodeClass (LEG-30 to LEG-42)."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis.legacy.awsnodetemplate import (
    EXCLUDED_BY_LAUNCH_TEMPLATE,
    Defaults,
    convert_provider,
    convert_template,
)
from tenon.apis.legacy.conversion import Converted
from tests.tenon.apis.case import REMOVED
from tests.tenon.apis.legacy.sound import manifest, problems, sound

SPEC = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}, "instanceProfile": "p"}
IDS = "ami-1, ami-2,"


def converted(edits: dict[str, Any] | None = None, defaults: Defaults | None = None, **metadata: Any) -> Converted:
    old = manifest("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", SPEC, edits, **metadata)
    return convert_template(old, defaults)


def spec(edits: dict[str, Any] | None = None) -> Any:
    (result,) = sound(converted(edits))
    return result["spec"]


def test_leg30_leg38_leg39_fields_that_stay() -> None:
    edits = {
        "userData": "#!/bin/sh",
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}],
        "tags": {"karpenter.sh/discovery": "karpenter-test"},
        "context": "c",
        "detailedMonitoring": True,
    }
    result = spec(edits)
    assert {name: result[name] for name in edits} == edits


@pytest.mark.parametrize(
    ("family", "alias"),
    [
        (None, "al2@latest"),
        ("AL2", "al2@latest"),
        ("Bottlerocket", "bottlerocket@latest"),
        ("Windows2022", "windows2022@latest"),
    ],
)
def test_leg31_a_family_is_an_alias(family: str | None, alias: str) -> None:
    assert spec({} if family is None else {"amiFamily": family})["amiSelectorTerms"] == [{"alias": alias}]


def test_leg31_a_family_with_images_is_stated() -> None:
    assert spec({"amiSelector": {"Name": "x"}})["amiFamily"] == "AL2"
    assert spec({"amiFamily": "Custom", "amiSelector": {"Name": "x"}})["amiFamily"] == "Custom"
    assert problems(converted({"amiFamily": "Custom"})) == ["spec.amiSelector: is required with amiFamily Custom"]


@pytest.mark.parametrize(
    ("selector", "terms"),
    [
        ({"aws-ids": IDS}, [{"id": "ami-1"}, {"id": "ami-2"}]),
        ({"aws::ids": IDS}, [{"id": "ami-1"}, {"id": "ami-2"}]),
        ({"Name": "mine", "any": ""}, [{"tags": {"Name": "mine", "any": "*"}}]),
        (
            {"aws::name": "a, b", "aws::owners": "self,123456789012"},
            [{"name": name, "owner": owner} for name in ("a", "b") for owner in ("self", "123456789012")],
        ),
        ({"aws::owners": "self", "Name": "x"}, [{"owner": "self", "tags": {"Name": "x"}}]),
        ({"aws::name": "a", "Name": "x"}, [{"name": "a", "tags": {"Name": "x"}}]),
    ],
    ids=str,
)
def test_leg32_images(selector: dict[str, str], terms: list[dict[str, Any]]) -> None:
    assert spec({"amiSelector": selector})["amiSelectorTerms"] == terms


@pytest.mark.parametrize("field", ["subnetSelector", "securityGroupSelector"])
def test_leg33_leg34_selectors(field: str) -> None:
    prefix = "subnet" if field == "subnetSelector" else "sg"
    terms = f"{field}Terms"
    assert spec({field: {"Name": "", "team": "a"}})[terms] == [{"tags": {"Name": "*", "team": "a"}}]
    for key in ("aws-ids", "aws::ids"):
        assert spec({field: {key: f"{prefix}-1,{prefix}-2"}})[terms] == [{"id": f"{prefix}-1"}, {"id": f"{prefix}-2"}]
        assert "must stand alone" in problems(converted({field: {key: f"{prefix}-1", "Name": "x"}}))[0]
        assert "names no id" in problems(converted({field: {key: " , "}}))[0]
    assert problems(converted({field: REMOVED})) == [f"spec.{field}: is required"]


TERMS = ("subnetSelectorTerms", "securityGroupSelectorTerms")
OF_DEMO = [{"tags": {"karpenter.sh/discovery": "demo"}}]


def test_leg33_leg34_without_a_selector_a_class_takes_only_what_has_a_tag_of_its_own_cluster() -> None:
    """The tag of Karpenter 0.5 is on the groups of load balancers and on public subnets too."""
    inside = convert_provider("p", {"instanceProfile": "p"}, Defaults(cluster="demo"))
    (node_class,) = sound(inside)
    assert [node_class["spec"][name] for name in TERMS] == [OF_DEMO] * 2
    assert "it names no subnets: Tenon uses those with the tag karpenter.sh/discovery: demo" in inside.notes


def test_leg34_the_groups_of_a_launch_template_are_those_of_the_cluster_now() -> None:
    edits = {"launchTemplate": "mine", "securityGroupSelector": REMOVED, "instanceProfile": REMOVED}
    (node_class,) = sound(converted(edits, Defaults(cluster="demo")))
    assert node_class["spec"]["securityGroupSelectorTerms"] == OF_DEMO
    assert node_class["spec"]["subnetSelectorTerms"] == [{"tags": {"a": "b"}}]


def test_leg33_leg34_where_the_cluster_is_unknown_a_note_asks_for_its_name() -> None:
    inside = convert_provider("p", {"instanceProfile": "p"})
    (node_class,) = sound(inside)
    assert [node_class["spec"][name] for name in TERMS] == [[{"tags": {"karpenter.sh/discovery": "*"}}]] * 2
    assert [note for note in inside.notes if "of any cluster" in note] == [
        f"it names no {noun}: Tenon uses those with the tag karpenter.sh/discovery of any cluster: write your "
        "cluster's name instead of *"
        for noun in ("subnets", "security groups")
    ]


def test_leg35_the_instance_profile_may_come_from_the_settings() -> None:
    assert "role" not in spec()
    events = converted({"instanceProfile": REMOVED}, Defaults(instance_profile="shared"))
    assert sound(events)[0]["spec"]["instanceProfile"] == "shared"
    assert any("aws.defaultInstanceProfile" in note for note in events.notes)
    assert sound(converted({"instanceProfile": REMOVED}))[0]["spec"]["role"] == "KarpenterNodeRole"


def test_leg36_a_launch_template_is_left_out_with_a_note() -> None:
    events = converted({"launchTemplate": "mine", "securityGroupSelector": REMOVED, "instanceProfile": REMOVED})
    assert "launchTemplate" not in sound(events)[0]["spec"]
    assert any("launchTemplate mine is left out" in note for note in events.notes)
    alone = {"launchTemplate": "mine", "securityGroupSelector": REMOVED, "instanceProfile": REMOVED}
    values: dict[str, Any] = {"userData": "x", "amiFamily": "AL2", "instanceProfile": "p"}
    for field in EXCLUDED_BY_LAUNCH_TEMPLATE:
        value = values.get(
            field, [{"deviceName": "a"}] if field == "blockDeviceMappings" else {"httpEndpoint": "enabled"}
        )
        assert f"spec.{field}: is not combined with launchTemplate" in problems(converted(alone | {field: value}))


def test_leg37_the_metadata_options_of_that_time_are_written_out() -> None:
    all_of_them = {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 2,
        "httpTokens": "required",
    }
    assert spec()["metadataOptions"] == all_of_them
    assert spec({"metadataOptions": {"httpTokens": "optional"}})["metadataOptions"] == all_of_them | {
        "httpTokens": "optional"
    }


@pytest.mark.parametrize("tag", ["karpenter.sh/provisioner-name", "karpenter.sh/managed-by"])
def test_leg39_tags_that_were_karpenters_are_refused(tag: str) -> None:
    assert problems(converted({"tags": {tag: "x"}}))[0].startswith(f"spec.tags[{tag}]: ")


def test_leg52_tags_of_the_settings_are_added_and_its_own_win() -> None:
    events = converted({"tags": {"team": "own"}}, Defaults(tags={"team": "all", "cost": "1"}))
    assert sound(events)[0]["spec"]["tags"] == {"team": "own", "cost": "1"}
    assert "the settings (aws.tags, DEFAULT_TAGS) add tags: cost" in events.notes
    equal_items = converted({"tags": {"team": "own"}}, Defaults(tags={"team": "all"}))
    assert sound(equal_items)[0]["spec"]["tags"] == {"team": "own"}
    assert not any("aws.tags" in note for note in equal_items.notes)
    provider = convert_provider("p", SPEC, Defaults(tags={"team": "all"}))
    assert sound(provider)[0]["spec"]["tags"] == {"team": "all"}


def test_leg52_more_tags_than_ec2_takes_are_reported_with_their_source() -> None:
    own = {f"own{number}": "x" for number in range(49)}
    settings = Defaults(tags={"own0": "all", "a": "1"})
    assert len(sound(converted({"tags": own}, settings))[0]["spec"]["tags"]) == 50
    more = Defaults(tags={"a": "1", "b": "2"})
    text = "has 49 tags, 51 with those of the settings: an EC2NodeClass takes 50"
    assert problems(converted({"tags": own}, more)) == [f"spec.tags: {text}"]
    assert problems(convert_provider("p", {**SPEC, "tags": own}, more)) == [f"spec.provider.tags: {text}"]


def test_leg41_leg42_the_status_stays_and_the_hash_goes() -> None:
    old = manifest("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", SPEC)
    old["metadata"]["annotations"] = {"karpenter.k8s.aws/nodetemplate-hash": "1"}
    status = {"subnets": [{"id": "subnet-1", "zone": "us-west-2a"}], "securityGroups": [{"id": "sg-1", "name": "n"}]}
    (result,) = sound(convert_template({**old, "status": status}))
    assert result["status"] == status
    assert result["metadata"] == {"name": "case"}
