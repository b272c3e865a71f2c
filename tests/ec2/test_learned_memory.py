"""Memory that nodes reported, in place of what is computed from EC2's statement (AWS-061, ACT-10)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.ec2.provider import Ec2Provider
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.types.capacity import MIB, NodeSettings
from tenon.ec2.types.learned_memory import MOST, learned_memory, read_figures, with_figure
from tenon.evolve import evolve
from tests.ec2.samples import AMD, ARM, instance_type, node_class

KIB = 1024
REPORTED = 7_900_000 * KIB


def with_learned(node_class: EC2NodeClass, figures: object) -> EC2NodeClass:
    text = figures if isinstance(figures, str) else json.dumps(figures)
    return evolve(node_class, metadata=evolve(node_class.metadata, annotations={labels.LEARNED_MEMORY: text}))


def annotated(text: str | None) -> dict[str, str]:
    assert text is not None
    return {labels.LEARNED_MEMORY: text}


def test_the_first_node_of_a_type_and_image_teaches_and_the_second_does_not() -> None:
    text = with_figure({}, [AMD], AMD, "m5.large", REPORTED)
    assert text == '{"' + AMD + '":{"m5.large":7900000}}'
    assert with_figure(annotated(text), [AMD], AMD, "m5.large", REPORTED) is None
    more = with_figure(annotated(text), [AMD, ARM], ARM, "m7g.large", REPORTED)
    assert read_figures(annotated(more)) == {AMD: {"m5.large": 7900000}, ARM: {"m7g.large": 7900000}}


def test_where_nodes_of_one_type_differ_the_least_counts() -> None:
    """A plan that counts with more than a node has would leave a pod without room."""
    text = with_figure({}, [AMD], AMD, "m5.large", REPORTED)
    assert with_figure(annotated(text), [AMD], AMD, "m5.large", REPORTED + KIB) is None
    less = with_figure(annotated(text), [AMD], AMD, "m5.large", REPORTED - KIB)
    assert read_figures(annotated(less)) == {AMD: {"m5.large": 7899999}}


def test_figures_of_images_that_the_class_left_are_forgotten() -> None:
    text = with_figure({}, [AMD], AMD, "m5.large", REPORTED)
    assert with_figure(annotated(text), [ARM], AMD, "m5.large", 1) is None
    assert read_figures(annotated(with_figure(annotated(text), [ARM], ARM, "m7g.large", REPORTED))) == {
        ARM: {"m7g.large": 7900000}
    }
    assert learned_memory(with_learned(node_class(), {"ami-former": {"m5.large": 1}})) == {}


def test_the_annotation_is_bounded_and_keeps_the_newest() -> None:
    result: dict[str, str] = {}
    for number in range(MOST + 5):
        result = annotated(with_figure(result, [AMD], AMD, f"t{number}.large", REPORTED))
    figure = read_figures(result)[AMD]
    assert len(figure) == MOST
    assert "t4.large" not in figure
    assert f"t{MOST + 4}.large" in figure
    assert len(result[labels.LEARNED_MEMORY]) < 16_000


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.dictionaries(st.text(), v)))
def test_whatever_the_annotation_holds_it_can_be_read(value: object) -> None:
    figures = read_figures({labels.LEARNED_MEMORY: json.dumps(value)})
    assert all(kib > 0 for types in figures.values() for kib in types.values())
    assert read_figures({labels.LEARNED_MEMORY: "{"}) == {}


def test_aws061_a_reported_figure_replaces_the_computed_one() -> None:
    """The eviction threshold, where it is a percentage, follows."""
    kubelet = {"evictionHard": {"memory.available": "10%"}}
    declaration = instance_type("m5.large", settings=NodeSettings(kubelet=kubelet))
    learned = instance_type("m5.large", settings=NodeSettings(kubelet=kubelet, learned_memory={"m5.large": REPORTED}))
    assert learned.capacity["memory"] == REPORTED != declaration.capacity["memory"]
    more = learned.overhead["memory"] - declaration.overhead["memory"]
    assert abs(more - (REPORTED - declaration.capacity["memory"]) / 10) <= 1


@pytest.mark.integration
def test_aws061_plans_get_the_learned_types_and_the_others_stay_the_same_objects(
    provider: Ec2Provider, ready_class: EC2NodeClass
) -> None:
    first = {instance_type.name: instance_type for instance_type in provider.instance_types(ready_class)}
    image = ready_class.status.amis[0].id
    taught = with_learned(ready_class, {image: {"m5.large": REPORTED // KIB}})
    second = {instance_type.name: instance_type for instance_type in provider.instance_types(taught)}
    assert second["m5.large"].capacity["memory"] == REPORTED
    assert [name for name in first if first[name] is not second[name]] == ["m5.large"]
    assert provider.instance_types(taught) is provider.instance_types(taught)
    less = with_learned(ready_class, {image: {"m5.large": REPORTED // KIB - 1}})
    third = {instance_type.name: instance_type for instance_type in provider.instance_types(less)}
    assert third["m5.large"].capacity["memory"] == REPORTED - KIB
    assert provider.instance_types(ready_class) == list(first.values())


@pytest.mark.parametrize(
    ("reported", "counts"),
    [(1, 6 * 1024 * MIB), (7 * 1024 * MIB, 7 * 1024 * MIB), (64 * 1024 * MIB, 8 * 1024 * MIB)],
    ids=["hardly any", "plausible", "more than EC2 sells"],
)
def test_a_node_is_not_believed_to_have_hardly_any_memory_or_more_than_ec2_sells(reported: int, counts: int) -> None:
    """One kubelet that lies must not make plans avoid a type, or overfill it."""
    settings = NodeSettings(learned_memory={"m5.large": reported})
    assert instance_type("m5.large", settings=settings).capacity["memory"] == counts
