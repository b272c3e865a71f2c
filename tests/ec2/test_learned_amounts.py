"""CPU, pods and huge pages of nodes that report other amounts than planned (AWS-061)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.ec2.provider import Ec2Provider
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.types.capacity import NodeSettings
from tenon.ec2.types.learned_amounts import MOST, Figure, learned_amounts, read_amounts, with_amounts
from tenon.evolve import evolve
from tenon.resources import CPU, MEMORY, PODS, Resources
from tests.ec2.samples import AMD, ARM, instance_type, node_class

GIB = 2**30
HUGE = "hugepages-2Mi"
TYPE = "m5.large"


def annotated(text: str | None) -> dict[str, str]:
    assert text is not None
    return {labels.LEARNED_AMOUNTS: text}


def with_learned(node_class: EC2NodeClass, annotations: dict[str, str]) -> EC2NodeClass:
    return evolve(node_class, metadata=evolve(node_class.metadata, annotations=annotations))


def allocatable(figures: dict[str, Figure] | None = None, **kubelet: object) -> Resources:
    """What pods get on an m5.large."""
    settings = NodeSettings(kubelet=kubelet, learned_amounts={TYPE: figures or {}})
    return instance_type(TYPE, settings=settings).allocatable


PLANNED = allocatable()


def taught(reported: Resources, planned: Resources = PLANNED, before: dict[str, str] | None = None) -> str | None:
    """The annotation after a node reported these amounts, and all others as planned."""
    return with_amounts(before or {}, [AMD], AMD, TYPE, planned, {**planned, **reported})


@pytest.mark.parametrize(("resource", "less"), [(CPU, PLANNED[CPU] - 130), (PODS, 12)])
def test_aws061_a_plan_counts_with_less_that_a_node_reported(resource: str, less: int) -> None:
    """Other amounts stay."""
    figures = read_amounts(annotated(taught({resource: less})))[AMD][TYPE]
    assert allocatable(figures) == {**PLANNED, resource: less}


@pytest.mark.parametrize("reported", [{}, {CPU: PLANNED[CPU] + 1}, {PODS: 250}, {PODS: 0}, {"nvidia.com/gpu": 8}])
def test_aws061_as_much_as_planned_more_and_other_resources_teach_nothing(reported: Resources) -> None:
    """A kubelet that lies must not attract pods, and a device plugin that starts later reports 0 at first."""
    assert taught(reported) is None


@pytest.mark.parametrize(("resource", "counts"), [(CPU, int(PLANNED[CPU] * 0.75)), (PODS, PLANNED[PODS] // 4)])
def test_aws061_a_kubelet_that_lies_lowers_an_amount_within_bounds(resource: str, counts: int) -> None:
    first = annotated(taught({resource: 1}))
    lowered = allocatable(read_amounts(first)[AMD][TYPE])
    assert lowered[resource] == counts
    assert taught({resource: 1}, planned=lowered, before=first) is None, "it is known"


def test_aws061_other_kubelet_settings_make_a_figure_void() -> None:
    figures = read_amounts(annotated(taught({PODS: 12})))[AMD][TYPE]
    assert allocatable(figures, maxPods=20)[PODS] == 20
    changed = annotated(taught({PODS: 11}, planned=allocatable(maxPods=20), before=annotated(taught({PODS: 12}))))
    assert read_amounts(changed)[AMD][TYPE] == {PODS: Figure(20, 11)}


def test_aws061_the_least_of_the_nodes_counts_also_below_a_learned_amount() -> None:
    first = annotated(taught({PODS: 20}))
    lowered = allocatable(read_amounts(first)[AMD][TYPE])
    assert taught({PODS: 25}, before=first) is None
    second = annotated(taught({PODS: 18}, planned=lowered, before=first))
    assert read_amounts(second)[AMD][TYPE] == {PODS: Figure(PLANNED[PODS], 18)}


def test_aws061_huge_pages_that_nodes_report_are_planned_with_and_taken_off_the_memory() -> None:
    """Otherwise no plan could place a pod that asks for them, and plans would count their memory twice."""
    first = annotated(taught({HUGE: GIB}))
    figures = read_amounts(first)[AMD][TYPE]
    assert allocatable(figures) == {**PLANNED, HUGE: GIB, MEMORY: PLANNED[MEMORY] - GIB}
    assert taught({HUGE: GIB}, planned=allocatable(figures), before=first) is None
    assert taught({HUGE: 2 * GIB}, planned=allocatable(figures), before=first) is None, "more teaches nothing"
    removal = annotated(taught({HUGE: 0}, planned=allocatable(figures), before=first))
    assert allocatable(read_amounts(removal)[AMD][TYPE]) == PLANNED


def test_aws061_huge_pages_take_half_of_the_memory_at_most() -> None:
    figures = {HUGE: Figure(0, 64 * GIB), "hugepages-1Gi": Figure(0, GIB)}
    resources = allocatable(figures)
    capacity = instance_type(TYPE).capacity[MEMORY]
    assert resources["hugepages-1Gi"] + resources[HUGE] == capacity // 2
    assert resources[MEMORY] == PLANNED[MEMORY] - capacity // 2


def test_aws061_only_current_images_of_a_class_count_and_the_least_of_them() -> None:
    text = json.dumps({of: {TYPE: {PODS: [29, pods]}} for of, pods in ((AMD, 20), (ARM, 19), ("ami-old", 1))})
    learned = with_learned(node_class(), annotated(text))
    images = {image.id for image in learned.status.amis}
    assert learned_amounts(learned) == {TYPE: {PODS: Figure(29, 19 if ARM in images else 20)}}
    assert with_amounts(annotated(text), [AMD], ARM, TYPE, {PODS: 29}, {PODS: 2}) is None
    changed = annotated(with_amounts(annotated(text), [AMD], AMD, "c5.large", {PODS: 29}, {PODS: 2}))
    assert read_amounts(changed) == {AMD: {TYPE: {PODS: Figure(29, 20)}, "c5.large": {PODS: Figure(29, 2)}}}


def test_aws061_the_annotation_is_bounded_and_keeps_the_newest() -> None:
    annotations: dict[str, str] = {}
    for number in range(MOST + 5):
        annotations = annotated(with_amounts(annotations, [AMD], AMD, f"t{number}.large", {PODS: 29}, {PODS: 9}))
    figure = read_amounts(annotations)[AMD]
    assert len(figure) == MOST
    assert "t4.large" not in figure
    assert len(annotations[labels.LEARNED_AMOUNTS]) < 16_000


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda v: st.lists(v) | st.dictionaries(st.sampled_from([AMD, TYPE, PODS, HUGE, "x"]), v),
    )
)
def test_aws061_whatever_the_annotation_holds_it_can_be_read(value: object) -> None:
    figures = read_amounts({labels.LEARNED_AMOUNTS: json.dumps(value)})
    for types in figures.values():
        for amounts in types.values():
            resources = allocatable(amounts)
            assert all(units >= 0 for units in resources.values())
            assert resources[PODS] >= PLANNED[PODS] // 4
    assert read_amounts({labels.LEARNED_AMOUNTS: "{"}) == {}


@pytest.mark.integration
def test_aws061_plans_get_the_learned_types_and_the_others_stay_the_same_objects(
    provider: Ec2Provider, ready_class: EC2NodeClass
) -> None:
    first = {instance_type.name: instance_type for instance_type in provider.instance_types(ready_class)}
    image, pods = ready_class.status.amis[0].id, first[TYPE].allocatable[PODS]
    figures = json.dumps({image: {TYPE: {PODS: [pods, pods - 3]}}})
    second = {
        instance_type.name: instance_type
        for instance_type in provider.instance_types(with_learned(ready_class, annotated(figures)))
    }
    assert second[TYPE].allocatable[PODS] == pods - 3
    assert [name for name in first if first[name] is not second[name]] == [TYPE]
    assert provider.instance_types(ready_class) == list(first.values())
