"""From a plan to NodeClaims: the same plan gives the same objects, under names that Kubernetes takes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.base import kubernetes_name
from tenon.apis.hashing import nodepool_hash
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.nodepool import NodePool, TemplateSpec
from tenon.apis.validation import check
from tenon.ec2.launch.launched_labels import launched_labels
from tenon.kube.node_affinity import accepts_node
from tenon.kube.planned_pods import format_planned_pods, format_pod_groups, planned_pods
from tenon.kube.pod import Pod
from tenon.kube.taints import Toleration
from tenon.node.registration import registration
from tenon.provisioning.claims import claim_body, claim_name, largest_capacity, planned_requests
from tenon.provisioning.pools import scheduling_pool
from tenon.scheduling.engine import solve
from tenon.scheduling.model import PlannedClaim
from tests.activities.provisioning.fake_view import node_pool
from tests.tenon.scheduling.builders import CATALOG, asking, need, pod, problem
from tests.workflows.fake_activities import INSTANCE

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PARTS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True)
POOL_NAMES = st.lists(_PARTS, min_size=1, max_size=6).map(lambda parts: ".".join(parts)[:200].rstrip("-."))
MANY_FAMILIES = {
    "template/spec/requirements": [{"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": 15}],
}
ORDINALS = st.integers(0, 5000)
BATCHES = st.integers(1, 2**40)


@given(POOL_NAMES, BATCHES, ORDINALS)
def test_names_are_valid_wherever_a_nodeclaims_name_goes(pool: str, batch: int, ordinal: int) -> None:
    """A name is a DNS subdomain, and a label value (63 characters) on the Node and its pods."""
    name = claim_name(pool, batch, ordinal)
    assert SUBDOMAIN.fullmatch(name)
    assert len(name) <= 63
    assert name == claim_name(pool, batch, ordinal)


def test_a_pool_name_that_is_cut_at_a_dot_still_gives_a_valid_name() -> None:
    assert SUBDOMAIN.fullmatch(claim_name("a" * 55 + ".b", 1, 0))


@given(POOL_NAMES, BATCHES)
def test_names_within_a_batch_and_between_batches_differ(pool: str, batch: int) -> None:
    names = {claim_name(pool, number, ordinal) for number in (batch, batch + 1) for ordinal in range(20)}
    assert len(names) == 40


def test_long_pool_names_with_one_beginning_do_not_share_claim_names() -> None:
    assert claim_name("p" * 60 + "a", 1, 0) != claim_name("p" * 60 + "b", 1, 0)


def planned(pool: NodePool, *pods: Pod) -> PlannedClaim:
    """The claim that the engine plans for these pods."""
    (claim,) = solve(problem(pods, scheduling_pool(pool, CATALOG, {}))).claims
    return claim


FULL = node_pool(
    "apps",
    {
        "template/metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
        "template/spec/taints": [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}],
        "template/spec/startupTaints": [{"key": "warming", "effect": "NoExecute"}],
        "template/spec/expireAfter": "48h",
        "template/spec/terminationGracePeriod": "5m",
        "template/spec/requirements": [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}],
    },
)


def test_a_claim_has_each_field_of_its_pools_template() -> None:
    """NC-01: a field that does not reach the claim changes no node, but its change replaces all of them."""
    fields = {kubernetes_name(name) for name in TemplateSpec.model_fields}
    claim = planned(FULL, pod("a", tolerations=(Toleration(key="dedicated", value="a"),)))
    assert fields - claim_body(claim, FULL, batch=1, ordinal=0)["spec"].keys() == set()


def test_a_claim_carries_what_its_pool_says() -> None:
    """NC-01, NC-02, NP-03: the claim is complete, so that a change of the pool later does not change it."""
    tolerant = pod("a", tolerations=(Toleration(key="dedicated", value="a"),))
    body = claim_body(planned(FULL, tolerant), FULL, batch=7, ordinal=0)
    spec, metadata = body["spec"], body["metadata"]
    assert spec["taints"] == [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}]
    assert [(taint["key"], taint["effect"]) for taint in spec["startupTaints"]] == [("warming", "NoExecute")]
    assert (spec["expireAfter"], spec["terminationGracePeriod"]) == ("48h", "5m")
    assert spec["nodeClassRef"] == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    assert metadata["labels"]["team"] == "a"
    assert metadata["labels"][labels.NODEPOOL] == "apps"
    assert metadata["labels"][labels.CAPACITY_TYPE] == "on-demand"
    assert metadata["labels"]["karpenter.k8s.aws/ec2nodeclass"] == "default"
    assert metadata["annotations"]["note"] == "x"
    assert metadata["annotations"][labels.NODEPOOL_HASH] == nodepool_hash(FULL)
    assert metadata["finalizers"] == [labels.TERMINATION_FINALIZER]
    assert metadata["ownerReferences"][0]["blockOwnerDeletion"]


def test_sch026_a_claim_has_the_label_of_which_its_pool_lists_several_values() -> None:
    """Its Node gets it as well, so that kube-scheduler binds a pod that only asks for the label."""
    term = {"key": "example.com/tier", "operator": "In", "values": ["gold", "silver"]}
    pool = node_pool("apps", {"template/spec/requirements": [term]})
    chooser = asking("a", need("example.com/tier", "Exists"))
    body = claim_body(planned(pool, chooser), pool, batch=7, ordinal=0)
    assert check(NodeClaim.model_validate(body)) == []
    assert body["metadata"]["labels"]["example.com/tier"] == "gold"
    assert {**term, "values": ["gold"]} in body["spec"]["requirements"]
    kind = next(kind for kind in CATALOG if kind.name == INSTANCE.instance_type)
    body["metadata"] |= {"uid": "u", "labels": body["metadata"]["labels"] | launched_labels(body, INSTANCE, kind)}
    patch = registration(body, {"metadata": {"name": "n", "labels": {}}, "spec": {}, "status": {}}).patch
    assert patch is not None
    assert accepts_node(chooser.required_terms, patch["metadata"]["labels"])


def test_nodes_of_a_provisioners_pool_carry_its_old_label_too() -> None:
    """LEG-14: a pod that selects it is planned and lands there; other pools do not have it."""
    old = node_pool("apps")
    old.metadata.labels[labels.PROVISIONER] = "apps"
    chooser = asking("a", need(labels.PROVISIONER, "In", "apps"))
    body = claim_body(planned(old, chooser), old, batch=7, ordinal=0)
    assert body["metadata"]["labels"][labels.PROVISIONER] == "apps"
    assert check(NodeClaim.model_validate(body)) == []
    refused = solve(problem([chooser], scheduling_pool(node_pool("apps"), CATALOG, {})))
    assert f"it is {labels.NODEPOOL} now" in str(refused.unschedulable)


@pytest.mark.parametrize("name", ["instance-pods", "instance-ami-id"])
def test_a_label_that_no_node_carries_any_more_is_said_to_be_gone(name: str) -> None:
    """LEG-43, ALB-24: a pod that asks for it waits for ever, and is told why."""
    key = f"karpenter.k8s.aws/{name}"
    plan = solve(problem([asking("a", need(key, "Exists"))], scheduling_pool(node_pool(), CATALOG, {})))
    assert f"label {key} is not allowed: no node carries it any more" in str(plan.unschedulable)


def test_v1b04_a_claim_carries_the_kubelet_settings_of_a_pool_of_before_v1() -> None:
    """Its launch must see what its plan saw, whatever becomes of the pool."""
    annotations = {labels.V1BETA1_KUBELET: '{"maxPods":9}', "other": "x"}
    old = node_pool("apps", annotations=annotations)
    result = claim_body(planned(old, pod("a")), old, batch=7, ordinal=0)["metadata"]["annotations"]
    assert result[labels.V1BETA1_KUBELET] == '{"maxPods":9}'
    assert "other" not in result


def test_a_claim_is_valid_by_our_own_rules() -> None:
    """What we write ourselves must pass what we ask of others."""
    pool = node_pool()
    body = claim_body(planned(pool, pod("a")), pool, batch=7, ordinal=0)
    assert check(NodeClaim.model_validate(body)) == []
    assert "terminationGracePeriod" not in body["spec"]


def test_a_claim_lists_its_instance_types_and_what_its_pods_need() -> None:
    pool = node_pool()
    plan = planned(pool, asking("a", need(labels.ZONE, "In", "us-west-2b"), cpu="6"))
    body = claim_body(plan, pool, batch=7, ordinal=0)
    terms = {term["key"]: term for term in body["spec"]["requirements"]}
    assert set(terms[labels.INSTANCE_TYPE]["values"]) == set(plan.instance_types)
    assert terms[labels.ZONE]["values"] == ["us-west-2b"]
    assert body["metadata"]["labels"][labels.ZONE] == "us-west-2b"
    assert body["spec"]["resources"]["requests"]["cpu"] == "6"


def test_a_claim_says_what_its_pods_alone_request() -> None:
    """Its requests count the DaemonSets that it may get, too."""
    pool = node_pool()
    pods = [pod("a", cpu="1500m", memory="1Gi"), pod("b", cpu="1", memory="512Mi")]
    (plan,) = solve(problem(pods, scheduling_pool(pool, CATALOG, {}), daemons=[pod("log", cpu="100m")])).claims
    body = claim_body(plan, pool, batch=7, ordinal=0)
    text = body["metadata"]["annotations"]["tenon.sh/planned-requests"]
    assert text == '{"cpu":"2500m","memory":"1536Mi","pods":"2"}'
    assert planned_requests({labels.PLANNED_REQUESTS: text}) == {"cpu": 2500, "memory": 1536 * 2**20, "pods": 2}
    assert body["spec"]["resources"]["requests"]["cpu"] == "2600m"


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "2", '{"cpu": "much"}', '{"cpu": null}', '{"cpu": ["1"]}'])
def test_planned_requests_that_cannot_be_read_are_none(text: str) -> None:
    assert planned_requests({labels.PLANNED_REQUESTS: text}) == {}


@given(st.lists(st.from_regex(r"[a-z]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True), unique=True, max_size=20))
def test_planned_pods_read_back_in_any_order(names: list[str]) -> None:
    pods = tuple(pod(name) for name in names)
    text = format_planned_pods(pods)
    assert text == format_planned_pods(tuple(reversed(pods)))
    assert {planned_pod.uid for planned_pod in planned_pods({labels.PLANNED_PODS: text})} == {pod.uid for pod in pods}


def test_a_claim_says_which_of_its_pods_are_alike() -> None:
    """Pods of one controller with the same constraints. A pod without a controller is like no other, nor is one whose
    controller may use several templates, or one with a priority, which kube-scheduler may nominate for a node."""
    web = [replace(pod(name), workload="ReplicaSet/web", labels={"app": "web"}) for name in ("b", "d")]
    big = replace(pod("c", cpu="2"), workload="ReplicaSet/web", labels={"app": "web"})
    revised = replace(web[0], name="e", labels={"app": "web", "pod-template-hash": "2"})
    elsewhere = replace(web[0], name="f", namespace="other")
    buffer = replace(web[0], name="a", buffer="default/spare")
    flow = [replace(pod(name), workload="Workflow/w", labels={"app": "web"}) for name in ("i", "j")]
    urgent = [replace(item, name=name, priority=1000) for item, name in zip(web, ("k", "l"), strict=True)]
    pods = (*web, big, revised, elsewhere, buffer, pod("g"), pod("h"), *flow, *urgent)
    annotations = {labels.PLANNED_PODS: format_planned_pods(pods), labels.PLANNED_POD_GROUPS: format_pod_groups(pods)}
    groups: dict[str, list[str]] = {}
    for planned_pod in planned_pods(annotations):
        groups.setdefault(planned_pod.group, []).append(planned_pod.name)
    assert sorted(groups.values()) == [["b", "d"], *([name] for name in "cefghijkl")]
    assert format_pod_groups([pod("g"), pod("h")]) == "", "nothing to say"


@pytest.mark.parametrize("annotations", [{}, {labels.PLANNED_PODS: ""}, {labels.PLANNED_PODS: "nonsense,,"}])
def test_claims_without_planned_pods_answer_for_none(annotations: dict[str, str]) -> None:
    """A claim that a person wrote, or spoiled, covers no pod."""
    assert planned_pods(annotations) == []


def test_a_claim_says_when_min_values_were_lowered_for_it() -> None:
    """ANN-05: under BestEffort, and only where it was needed."""
    pool = node_pool(edits=MANY_FAMILIES)
    (lowered,) = solve(problem([pod(cpu="90")], scheduling_pool(pool, CATALOG, {}), min_values_best_effort=True)).claims
    body = claim_body(lowered, pool, batch=1, ordinal=0)
    assert body["metadata"]["annotations"]["karpenter.sh/nodeclaim-min-values-relaxed"] == "true"
    (term,) = [t for t in body["spec"]["requirements"] if t["key"] == labels.INSTANCE_TYPE]
    assert term["minValues"] == len(term["values"]) < 15
    (enough,) = solve(problem([pod()], scheduling_pool(pool, CATALOG, {}), min_values_best_effort=True)).claims
    assert claim_body(enough, pool, batch=1, ordinal=1)["metadata"]["annotations"][labels.MIN_VALUES_RELAXED] == "false"


@pytest.mark.parametrize("text", ["", "5", "{", '{"cpu": [1]}', '{"cpu": {}}', '{"cpu": "many"}', "[" * 100_000])
def test_an_annotation_that_holds_no_quantities_counts_for_nothing(text: str) -> None:
    assert largest_capacity({labels.LARGEST_CAPACITY: text}) == {}
    assert largest_capacity({labels.LARGEST_CAPACITY: '{"cpu": "2", "memory": 1024}'}) == {"cpu": 2000, "memory": 1024}
