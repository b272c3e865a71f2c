"""What counts as lost, and what must never: by example, and for every cluster that hypothesis can think of."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.garbage_collection.decide import GRACES, findings, split_by_limits
from tenon.garbage_collection.facts import (
    Observations,
    ObservedClaim,
    ObservedInstance,
    ObservedNode,
    ObservedTemplate,
    ObservedWorkflow,
)
from tenon.garbage_collection.findings import Finding, FindingKind
from tenon.garbage_collection.instances import left_to_workflows, tags_to_write

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OLD = NOW - timedelta(hours=5)
OURS = "karpenter.sh/termination"
EMPTY = Observations(
    now=NOW, claims=(), instances=(), nodes=(), workflows=(), templates=(), classes=frozenset({"default"})
)


def provider_id(number: int) -> str:
    return f"aws:///us-west-2a/i-{number}"


def claim(number: int, **fields: Any) -> ObservedClaim:
    """A claim at rest."""
    observed_claim = ObservedClaim(
        name=f"c-{number}",
        uid=f"u-{number}",
        created_at=OLD,
        pool="web",
        node_class="default",
        provider_id=provider_id(number),
        launched_at=OLD,
        registered=True,
        registered_at=OLD,
        node_name=f"n-{number}",
        finalizers=(OURS,),
    )
    return replace(observed_claim, **fields)


def instance(number: int, **fields: Any) -> ObservedInstance:
    observed_instance = ObservedInstance(
        f"i-{number}", "running", OLD, claim=f"c-{number}", pool="web", name=f"n-{number}"
    )
    return replace(observed_instance, **fields)


def node(number: int, **fields: Any) -> ObservedNode:
    observed_node = ObservedNode(
        f"n-{number}", f"nu-{number}", OLD, provider_id(number), f"c-{number}", ready=True, ours=True, registered=True
    )
    return replace(observed_node, **fields)


def workflow(number: int, **fields: Any) -> ObservedWorkflow:
    return replace(ObservedWorkflow(f"c-{number}", OLD), **fields)


def world(**fields: Any) -> Observations:
    return replace(EMPTY, **fields)


def found(observations: Observations) -> list[tuple[str, str]]:
    return [(finding.kind.value, finding.name) for finding in findings(observations)]


def test_nc07_another_controllers_claim_answers_for_its_own_and_is_never_acted_on() -> None:
    """No workflow, no instance, a finalizer that holds it, an instance of another id, no tag: each is a finding."""
    theirs: list[dict[str, Any]] = [
        {},
        {"deleted_at": OLD, "finalizers": ("example.com/other",)},
        {"provider_id": "", "registered": False, "launched_at": None},
        {"provider_id": provider_id(9)},
    ]
    for fields in theirs:
        for instances in ((), (instance(1, name=""),), (instance(1, state="terminated"),)):
            for workflows in ((), (workflow(1),)):
                observations = world(
                    claims=(claim(1, managed=False, **fields),),
                    instances=instances,
                    nodes=(node(1, ready=False),),
                    workflows=workflows,
                )
                assert findings(observations) == []
                assert left_to_workflows(observations, GRACES) == {}
    equal_items = world(claims=(claim(1),), instances=(instance(1, state="terminated"),), workflows=())
    assert findings(equal_items), "one of Tenon's own would be a finding"


def test_nc07_a_foreign_class_of_the_same_name_does_not_keep_a_launch_template() -> None:
    waiting = claim(1, provider_id="", launched_at=None, registered=False, created_at=NOW, node_class="default")
    template = ObservedTemplate("lt-1", "t", OLD, "default")
    kinds = [f.kind for f in findings(world(claims=(replace(waiting, managed=False),), templates=(template,)))]
    assert kinds == [FindingKind.UNUSED_TEMPLATE]
    assert findings(world(claims=(waiting,), templates=(template,))) == []


def test_act04_an_instance_without_claim_is_found_after_its_grace() -> None:
    """ACT-04: 30 seconds; and not while it is going already."""
    young = instance(2, launched_at=NOW - timedelta(seconds=29))
    observed_instance = instance(3, state="shutting-down")
    assert found(world(instances=(instance(1), young, observed_instance))) == [("instance_without_claim", "i-1")]


def test_an_instance_is_first_left_to_its_open_workflow() -> None:
    """The workflow drains; only when it has not ended the instance in half an hour is that done without it."""
    observations = world(instances=(instance(1),), workflows=(workflow(1),))
    assert found(observations) == [("workflow_without_claim", "c-1")]
    datetimes = left_to_workflows(observations, GRACES)
    assert datetimes == {"i-1": NOW}
    later = replace(observations, now=NOW + timedelta(minutes=29), left_since=datetimes)
    assert left_to_workflows(later, GRACES) == datetimes
    assert found(later) == [("workflow_without_claim", "c-1")]
    last = replace(later, now=NOW + timedelta(minutes=30))
    assert ("instance_without_claim", "i-1") in found(last)


def test_a_second_instance_of_a_claim_is_found() -> None:
    """A claim names the instance that it has; another with its tag costs money for nothing."""
    second = instance(9, claim="c-1")
    observations = world(
        claims=(claim(1),), instances=(instance(1), second), workflows=(workflow(1),), nodes=(node(1),)
    )
    assert found(observations) == [("instance_without_claim", "i-9")]
    launching = replace(observations, claims=(claim(1, provider_id="", registered=False),))
    assert "instance_without_claim" not in dict(found(launching))


def test_an_instance_without_the_tag_of_a_claim_waits_for_launches_of_its_pool() -> None:
    """It may be the one that a claim is just about to name."""
    bare = instance(5, claim="")
    launching = claim(1, provider_id="", registered=False)
    assert found(world(instances=(bare,), claims=(launching,), workflows=(workflow(1),))) == []
    assert found(world(instances=(bare,))) == [("instance_without_claim", "i-5")]


def test_instances_of_a_group_wait_for_its_members_alone() -> None:
    """Until every member names its instance, none of the group's can be told from a surplus one."""
    mine, surplus = instance(1, claim="", group="7-0"), instance(2, claim="", group="7-0")
    done = claim(1, group="7-0")
    launching = claim(2, group="7-0", provider_id="", registered=False)
    observations = world(instances=(mine, surplus), claims=(done, launching), workflows=(workflow(1), workflow(2)))
    assert "instance_without_claim" not in dict(found(observations))
    elsewhere = replace(launching, group="8-0")
    assert ("instance_without_claim", "i-2") in found(replace(observations, claims=(done, elsewhere)))
    assert ("instance_without_claim", "i-1") not in found(replace(observations, claims=(done, elsewhere)))


def test_an_instance_that_shuts_down_is_not_gone_yet() -> None:
    """Its kubelet says NotReady at once and gives the pods their grace: until it has ended, nobody takes them away."""
    observations = world(claims=(claim(1),), workflows=(workflow(1),), nodes=(node(1, ready=False),))
    assert found(replace(observations, instances=(instance(1, state="shutting-down"),))) == []
    ended = replace(observations, instances=(instance(1, state="terminated"),))
    assert found(ended) == [("claim_without_instance", "c-1")]


def test_a_workflow_that_is_ending_its_node_gets_no_second_signal() -> None:
    """It lost its claim and leaves, perhaps for days: each telling would cost it events and count as an end."""
    assert found(world(workflows=(workflow(1, leaving=True),))) == []


def test_ctl15_a_claim_without_instance() -> None:
    """CTL-15: registered and its Node not Ready; what EC2 may not show yet and what is being ended is left alone."""
    lost = claim(1)
    ready = claim(2)
    fresh = claim(3, launched_at=NOW - timedelta(seconds=100), registered=False)
    ending = claim(4, terminating=True, deleted_at=OLD)
    joining = claim(5, registered=False)
    observations = world(
        claims=(lost, ready, fresh, ending, joining),
        nodes=(node(1, ready=False), node(2)),
        workflows=tuple(workflow(number) for number in range(1, 6)),
    )
    assert found(observations) == [("claim_without_instance", "c-1"), ("claim_without_instance", "c-5")]
    assert found(replace(observations, nodes=None)) == [("claim_without_instance", "c-5")]


def test_a_registered_claim_whose_node_vanished_is_found() -> None:
    """Its instance runs and costs money, and no pod comes there. One that leaves, or is stopped, is left alone."""
    fresh = claim(2, registered_at=NOW - timedelta(seconds=100))
    claims = (claim(1), fresh, claim(3, registered_at=None), claim(4, deleted_at=OLD), claim(5))
    observations = world(
        claims=claims,
        instances=(*(instance(number) for number in range(1, 5)), instance(5, state="stopped")),
        workflows=tuple(workflow(number) for number in range(1, 6)),
    )
    assert found(observations) == [("claim_without_node", "c-1")]
    assert found(replace(observations, nodes=tuple(node(number) for number in range(1, 6)))) == []


def test_a_node_that_came_in_place_of_the_registered_one_does_not_count() -> None:
    """Registration is over, so nothing removes its taint. A Node that only lost its label is still the same Node."""
    observations = world(claims=(claim(1),), instances=(instance(1),), workflows=(workflow(1),))
    registered = claim(1).registered_at
    assert registered is not None
    late = node(1, created_at=registered + timedelta(hours=1), registered=False)
    lost = [("claim_without_node", "c-1")]
    assert found(replace(observations, nodes=(late,))) == lost
    assert found(replace(observations, nodes=(replace(late, provider_id=""),))) == lost
    for stays in (node(1, registered=False), replace(late, created_at=NOW - timedelta(seconds=100))):
        assert found(replace(observations, nodes=(stays,))) == []
    assert found(replace(observations, nodes=(node(1, name="other"), late))) == []


def test_a_claim_without_workflow_is_found_after_its_grace() -> None:
    """The search of workflows is late by moments."""
    young = claim(2, created_at=NOW - timedelta(seconds=90))
    observations = world(claims=(claim(1), young), instances=(instance(1), instance(2)), nodes=(node(1), node(2)))
    assert found(observations) == [("claim_without_workflow", "c-1")]


def test_a_workflow_of_an_earlier_claim_of_the_same_name_is_lost() -> None:
    """Claims that people make by hand may come again under their name; the UID never does."""
    observations = world(
        claims=(claim(1),), instances=(instance(1),), nodes=(node(1),), workflows=(workflow(1, uid="u-1"),)
    )
    assert found(observations) == []
    assert found(replace(observations, workflows=(workflow(1, uid="earlier"),))) == [("workflow_without_claim", "c-1")]


def test_a_claim_held_by_other_finalizers_is_reported_and_not_started_again() -> None:
    """Its life is over: a workflow would end at once, and be begun again for ever. Unless its instance still runs."""
    observed_claim = claim(1, deleted_at=OLD, terminating=True, finalizers=("example.com/audit",))
    assert found(world(claims=(observed_claim,))) == [("foreign_finalizer", "c-1")]
    assert ("claim_without_workflow", "c-1") in found(world(claims=(observed_claim,), instances=(instance(1),)))
    changed_observed_claim = replace(observed_claim, finalizers=(OURS, "example.com/audit"))
    assert found(world(claims=(changed_observed_claim,))) == [("claim_without_workflow", "c-1")]


def test_a_node_without_claim_and_instance_is_let_go() -> None:
    """ACT-04: only Tenon takes its own finalizer off. A Ready Node, and one that is not Tenon's, is left alone."""
    observations = world(nodes=(node(1, ready=False), node(2), node(3, ready=False, ours=False)))
    assert found(observations) == [("node_without_claim", "n-1")]
    assert found(replace(observations, workflows=(workflow(1, started_at=NOW),))) == []


def test_launch_templates_that_nothing_uses() -> None:
    """Of a class that is gone, or that launched nothing for an hour; a claim that waits keeps them."""
    templates = (
        ObservedTemplate("lt-1", "karpenter.k8s.aws/1", OLD, "gone"),
        ObservedTemplate("lt-2", "karpenter.k8s.aws/2", OLD, "default"),
        ObservedTemplate("lt-3", "karpenter.k8s.aws/3", NOW - timedelta(minutes=59), "gone"),
    )
    pair = [("unused_launch_template", "lt-1"), ("unused_launch_template", "lt-2")]
    at_rest = world(
        templates=templates, claims=(claim(1),), instances=(instance(1),), nodes=(node(1),), workflows=(workflow(1),)
    )
    assert found(at_rest) == pair
    waiting = replace(at_rest, claims=(claim(1), claim(2, provider_id="", registered=False)))
    recent = replace(at_rest, claims=(claim(1), claim(2, created_at=NOW - timedelta(minutes=30), deleted_at=NOW)))
    for observations in (waiting, recent):
        assert [item for item in found(observations) if item in pair] == pair[:1]


def busy(**fields: Any) -> Observations:
    """A cluster whose class launched a node half an hour ago and waits for another."""
    recent = claim(2, created_at=NOW - timedelta(minutes=30), launched_at=NOW - timedelta(minutes=30))
    waiting = claim(3, provider_id="", launched_at=None, registered=False, node_name="")
    return world(
        **{
            "claims": (claim(1), recent, waiting),
            "instances": (instance(1), instance(2, launched_at=NOW - timedelta(minutes=30), template_id="lt-used")),
            "nodes": (node(1), node(2)),
            "workflows": (workflow(1), workflow(2), workflow(3)),
            **fields,
        }
    )


def test_a_busy_class_loses_the_templates_that_launched_nothing_for_a_day() -> None:
    """Labels that differ for each node make a template each, and the account's quota stops all launches."""
    templates = (
        ObservedTemplate("lt-used", "t-used", NOW - timedelta(days=9), "default"),
        ObservedTemplate("lt-old", "t-old", NOW - timedelta(hours=24), "default"),
        ObservedTemplate("lt-young", "t-young", NOW - timedelta(hours=23), "default"),
    )
    assert found(busy(templates=templates)) == [("unused_launch_template", "lt-old")]


def test_many_templates_of_a_busy_class_go_after_an_hour() -> None:
    """A day would be too long: the account may have 5,000, and more nodes than that may be launched in a day."""
    used = ObservedTemplate("lt-used", "t-used", NOW - timedelta(hours=9), "default")
    fresh = ObservedTemplate("lt-fresh", "t-fresh", NOW - timedelta(minutes=59), "default")
    hourly = tuple(
        ObservedTemplate(f"lt-{number}", f"t-{number}", NOW - timedelta(hours=1), "default") for number in range(1000)
    )
    assert len(found(busy(templates=(used, fresh, *hourly)))) == len(hourly)
    assert found(busy(templates=(used, fresh, *hourly[2:]))) == []


def test_launch_templates_keep_no_leaked_instance_from_its_turn() -> None:
    """Thousands of them may be older, but only the instance costs money."""
    templates = tuple(ObservedTemplate(f"lt-{number}", f"t-{number}", OLD, "gone") for number in range(3))
    leaked = instance(9, claim="c-9", launched_at=NOW - timedelta(hours=1))
    todo, _ = split_by_limits(findings(world(templates=templates, instances=(leaked,))), actions=1, tags=0)
    assert [item.name for item in todo] == ["i-9"]


def test_aws122_which_tags_an_instance_lacks() -> None:
    """AWS-122: the Node's name and the claim's; a Name that the class gave is the user's."""
    tag = "karpenter.sh/nodeclaim"
    assert tags_to_write("c-1", "n-1", {}) == {"Name": "n-1", tag: "c-1"}
    assert tags_to_write("c-1", "n-1", {"Name": "c-1", tag: "c-1"}) == {"Name": "n-1"}
    assert tags_to_write("c-1", "n-1", {"Name": "our fleet", tag: "c-1"}) == {}
    assert tags_to_write("c-1", "", {"Name": "c-1", tag: "c-1"}) == {}
    observations = world(
        claims=(claim(1),), instances=(instance(1, name="c-1", claim=""),), nodes=(node(1),), workflows=(workflow(1),)
    )
    assert found(observations) == [("untagged_instance", "i-1")]


def test_a_sweep_acts_on_the_oldest_and_puts_the_rest_off() -> None:
    """What is only told takes nobody's place."""
    listed = [
        Finding(kind, f"{kind}-{number}", NOW + timedelta(seconds=number))
        for number in range(3)
        for kind in (FindingKind.INSTANCE_WITHOUT_CLAIM, FindingKind.UNTAGGED_INSTANCE, FindingKind.FOREIGN_FINALIZER)
    ]
    todo, later = split_by_limits(listed, actions=2, tags=1)
    assert Counter(item.kind for item in todo) == {
        FindingKind.INSTANCE_WITHOUT_CLAIM: 2,
        FindingKind.UNTAGGED_INSTANCE: 1,
        FindingKind.FOREIGN_FINALIZER: 3,
    }
    assert [item for item in listed if item in todo] == todo
    assert sorted(todo.name for todo in [*todo, *later]) == sorted(item.name for item in listed)


def test_what_always_fails_keeps_no_newer_leak_from_its_turn() -> None:
    """And of those that fail, the ones whose last try is longest ago come first."""
    stuck = [Finding(FindingKind.INSTANCE_WITHOUT_CLAIM, f"stuck-{number}", OLD) for number in range(4)]
    leak = Finding(FindingKind.INSTANCE_WITHOUT_CLAIM, "leak", NOW)
    failed = [stuck[2].key, stuck[3].key, stuck[0].key, stuck[1].key]
    todo, later = split_by_limits([*stuck, leak], actions=3, tags=0, failed=failed)
    assert [item.name for item in todo] == ["leak", "stuck-2", "stuck-3"]
    assert [item.name for item in later] == ["stuck-0", "stuck-1"]


NUMBERS = st.integers(0, 3)
INSTANTS = st.sampled_from([NOW, NOW - timedelta(seconds=60), NOW - timedelta(minutes=10), OLD])


def some(build: Any) -> Any:
    """A few, no two of one name."""
    return st.lists(build, max_size=4, unique_by=lambda item: getattr(item, "id", None) or _name(item)).map(tuple)


def _name(item: Any) -> str:
    return str(item.claim if isinstance(item, ObservedWorkflow) else item.name)


@st.composite
def claims(draw: st.DrawFn) -> ObservedClaim:
    number = draw(NUMBERS)
    return claim(
        number,
        created_at=draw(INSTANTS),
        launched_at=draw(INSTANTS),
        provider_id=draw(st.sampled_from(["", provider_id(draw(NUMBERS))])),
        registered=draw(st.booleans()),
        registered_at=draw(st.none() | INSTANTS),
        deleted_at=draw(st.none() | INSTANTS),
        terminating=draw(st.booleans()),
        finalizers=draw(st.sampled_from([(), (OURS,), ("x/y",), (OURS, "x/y")])),
    )


WORLDS = st.builds(
    Observations,
    now=st.just(NOW),
    claims=some(claims()),
    instances=some(
        st.builds(
            lambda number, at, **more: instance(number, launched_at=at, **more),
            NUMBERS,
            INSTANTS,
            claim=st.sampled_from(["", "c-0", "c-1", "c-2"]),
            state=st.sampled_from(["running", "shutting-down"]),
        )
    ),
    nodes=some(
        st.builds(
            lambda number, at, ready, ours: node(number, created_at=at, ready=ready, ours=ours),
            NUMBERS,
            INSTANTS,
            st.booleans(),
            st.booleans(),
        )
    ),
    workflows=some(st.builds(lambda number, at: workflow(number, started_at=at), NUMBERS, INSTANTS)),
    templates=some(
        st.builds(
            lambda number, at, of: ObservedTemplate(f"lt-{number}", f"t-{number}", at, of),
            NUMBERS,
            INSTANTS,
            st.sampled_from(["default", "gone"]),
        )
    ),
    classes=st.just(frozenset({"default"})),
    states=st.dictionaries(NUMBERS.map("i-{}".format), st.sampled_from(["running", "terminated"]), max_size=4),
)
SOURCES = ("claims", "instances", "nodes", "workflows", "templates", "classes", "states")


@given(WORLDS, st.sets(st.sampled_from(SOURCES), min_size=1))
@settings(max_examples=300, deadline=None)
def test_what_is_not_read_never_counts_as_none(observations: Observations, unread: set[str]) -> None:
    """Less knowledge gives fewer findings, never others or more certain ones: an API error ends no node."""
    nothing: dict[str, Any] = dict.fromkeys(unread)
    less, more = findings(replace(observations, **nothing)), findings(observations)
    assert {replace(item, confirmed=False) for item in less} <= {replace(item, confirmed=False) for item in more}
    assert {item for item in less if item.confirmed} <= set(more)


@given(WORLDS)
@settings(max_examples=300, deadline=None)
def test_the_instance_that_a_claim_names_is_never_garbage(observations: Observations) -> None:
    """Nor is one within its grace, nor a claim that lives with its instance."""
    instance_ids = {claim.instance_id for claim in observations.claims or ()}
    running = {instance.id for instance in observations.instances or () if instance.state == "running"}
    by_id = {
        instance.id: instance
        for instance in observations.instances or ()
        if NOW - instance.launched_at >= GRACES.instance
    }
    for finding in findings(observations):
        if finding.kind is FindingKind.INSTANCE_WITHOUT_CLAIM:
            assert finding.instance_id not in instance_ids
            assert finding.instance_id in by_id
        if finding.kind is FindingKind.CLAIM_WITHOUT_INSTANCE:
            assert finding.instance_id not in running
        if finding.kind is FindingKind.WORKFLOW_WITHOUT_CLAIM:
            assert (finding.claim, finding.uid or f"u-{finding.claim[2:]}") not in {
                (c.name, c.uid) for c in observations.claims or ()
            }


@given(st.sets(NUMBERS, min_size=1), INSTANTS)
@settings(max_examples=100, deadline=None)
def test_a_healthy_fleet_of_any_age_gives_nothing(numbers: set[int], at: datetime) -> None:
    """A node that lives is never touched."""
    observations = world(
        claims=tuple(claim(number, created_at=at, launched_at=at, registered_at=at) for number in numbers),
        instances=tuple(instance(number, launched_at=at) for number in numbers),
        nodes=tuple(node(number, created_at=at) for number in numbers),
        workflows=tuple(workflow(number, started_at=at) for number in numbers),
        templates=(ObservedTemplate("lt-1", "t-1", NOW, "default"),),
    )
    assert findings(observations) == []
    assert left_to_workflows(observations, GRACES) == {}
