"""FEATURE_GATES: names, defaults and what is refused (GAT-01 to GAT-08, SET-07, SET-30)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.provisioning.gates import (
    AWS_GATES,
    GATES,
    MEANINGS,
    AwsFeatureGates,
    FeatureGates,
    parse_aws_feature_gates,
    parse_feature_gates,
)


def test_gat01_to_gat06_defaults_are_those_of_karpenter() -> None:
    assert str(FeatureGates()) == (
        "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,StaticCapacity=false,"
        "CapacityBuffer=false,TerminateFirstDrift=false,TerminateFirstRepair=false,PodDeletionCostManagement=false,"
        "VPAPredictions=false"
    )
    assert str(AwsFeatureGates()) == "NodeClassCEL=false,DRANVIDIAGPU=false,DRAEFA=false,RebootForRepair=false"


@pytest.mark.parametrize("text", ["NodeOverlay=true", " NodeOverlay = T ,", "NodeOverlay=false,NodeOverlay=1"])
def test_set07_gates_are_written_as_for_karpenter(text: str) -> None:
    assert parse_feature_gates(text) == (FeatureGates(node_overlay=True), ())


def test_gates_that_are_not_named_keep_their_default() -> None:
    assert parse_feature_gates("")[0] == FeatureGates()
    assert parse_feature_gates("ReservedCapacity=false")[0] == FeatureGates(reserved_capacity=False)
    assert parse_aws_feature_gates("NodeClassCEL=true")[0] == AwsFeatureGates(node_class_cel=True)


@pytest.mark.parametrize("value", ["true", "false"])
def test_gat08_the_gate_of_drift_is_accepted_with_a_note(value: str) -> None:
    gates, notes = parse_feature_gates(f"Drift={value}")
    assert gates == FeatureGates()
    assert notes == ("The feature gate Drift no longer exists: drift is always on since Karpenter 1.0.",)


def test_n15_473_an_unknown_gate_is_ignored_with_a_note_while_it_is_false() -> None:
    assert parse_feature_gates("WarpDrive=false,StaticCapacity=true") == (
        FeatureGates(static_capacity=True),
        ("The feature gate WarpDrive is unknown and ignored. It is false, so nothing changes.",),
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("NodeOverlays=true", "unknown feature gate 'NodeOverlays': did you mean NodeOverlay"),
        ("nodeoverlay=true", "unknown feature gate 'nodeoverlay': did you mean NodeOverlay"),
        ("NodeRepair", "'NodeRepair' is not Gate=true or Gate=false"),
        ("NodeRepair=yes", "the gate NodeRepair must be true or false, not 'yes'"),
        ("Drift=maybe", "the gate Drift must be true or false, not 'maybe'"),
        ("=true", "unknown feature gate ''"),
        (
            "NodeOverlays=true,NodeRepair,NodeRepair=yes",
            "unknown feature gate 'NodeOverlays': did you mean NodeOverlay; 'NodeRepair' is not Gate=true or "
            "Gate=false; the gate NodeRepair must be true or false, not 'yes'",
        ),
    ],
)
def test_set07_what_cannot_be_meant_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)gate") as refused:
        parse_feature_gates(text)
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


@given(st.builds(FeatureGates, *[st.booleans()] * len(GATES)))
def test_gates_are_read_back_as_they_are_written(gates: FeatureGates) -> None:
    assert parse_feature_gates(str(gates)) == (gates, ())


def test_every_gate_has_a_meaning() -> None:
    assert MEANINGS.keys() == GATES.keys() | AWS_GATES.keys()
