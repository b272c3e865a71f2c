"""The rules of the models are evaluated as the API server evaluates them."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis.base import SERVER, ApiModel, Rule
from tenon.apis.cel_rules import broken_rules
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL, edited


class Inner(ApiModel):
    rules = (Rule("self.size > 1", "must be above one"),)

    size: int = 1


class Outer(ApiModel):
    rules = (
        Rule("!has(self.parts) || self.parts.size() > 0", "parts must not be written empty"),
        Rule("self == oldSelf", "cannot be changed", SERVER),
    )

    parts: list[Inner] = []
    one_part: Inner | None = None


@pytest.mark.parametrize(
    ("manifest", "broken"),
    [
        ({}, []),
        ({"parts": []}, [("", "parts must not be written empty")]),
        ({"parts": [{"size": 2}, {}]}, [("parts[1]", "must be above one")]),
        ({"onePart": {}}, [("onePart", "must be above one")]),
    ],
    ids=str,
)
def test_defaults_count_but_empty_lists_that_nobody_wrote_do_not(
    manifest: dict[str, Any], broken: list[tuple[str, str]]
) -> None:
    model = Outer.model_validate(manifest)
    assert [(path, rule.sentence) for path, rule in broken_rules(model)] == broken


class Conditional(ApiModel):
    rules = (Rule("!has(self.size) || self.size > 1 ? has(self.size) : false", "must have a size above one"),)

    size: int | None = None


def test_a_conditional_rule_counts_where_its_field_is_absent() -> None:
    """It begins as a rule does that holds wherever the field is absent."""
    (broken,) = broken_rules(Conditional())
    assert broken[1].sentence == "must have a size above one"
    assert broken_rules(Conditional(size=2)) == []


@pytest.mark.parametrize("kind", [NodePool, EC2NodeClass])
def test_each_rule_of_a_sound_object_has_a_value(kind: type[ApiModel]) -> None:
    """A rule that fails on an absent field counts as broken."""
    sample = NODEPOOL if kind is NodePool else EC2NODECLASS
    assert broken_rules(kind.model_validate(sample)) == []


def test_half_of_a_surrogate_pair_does_not_stop_validation() -> None:
    _, problems = parse(EC2NodeClass, edited(EC2NODECLASS, {"kubelet": {"registerWithTaints": [], "x": "\ud800"}}))
    assert [problem.path for problem in problems] == ["spec.kubelet", "spec.kubelet.x"]


def test_a_number_beyond_64_bits_in_a_field_that_no_rule_reads_breaks_none() -> None:
    """Only the kubelet's own type has something to say about it."""
    kubelet = {"tlsCurvePreferences": [2**64, -(2**70)]}
    _, problems = parse(EC2NodeClass, edited(EC2NODECLASS, {"kubelet": kubelet}))
    assert [problem.path for problem in problems] == [f"spec.kubelet.tlsCurvePreferences[{index}]" for index in (0, 1)]


@pytest.mark.parametrize(
    ("images", "refused"),
    [
        ({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}, True),
        ({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}], "amiFamily": "Custom"}, False),
        ({"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "Bottlerocket"}, True),
        ({"amiSelectorTerms": [{"alias": "al2023@latest"}]}, False),
    ],
    ids=str,
)
def test_n15_345_pods_per_core_is_refused_for_the_family_that_the_class_uses(
    images: dict[str, Any], refused: bool
) -> None:
    _, problems = parse(EC2NodeClass, edited(EC2NODECLASS, {**images, "kubelet": {"podsPerCore": 4}}))
    assert [problem.sentence for problem in problems] == (
        ["does not work with Bottlerocket: remove it"] if refused else []
    )
