"""What the API server and controllers write into pods, which pods from files lack (SCH-059, SCH-063, SCH-064)."""

from __future__ import annotations

import copy
from typing import Any

from tenon.simulation.admission import admitted, replica_labels, workload_labels

HOSTNAME = "kubernetes.io/hostname"


def term(**more: Any) -> dict[str, Any]:
    return {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}, **more}


def pod(*terms: dict[str, Any], preferred: bool = False) -> dict[str, Any]:
    if preferred:
        side = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": t} for t in terms]}
    else:
        side = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    return {
        "metadata": {"name": "web", "labels": {"app": "web", "version": "2"}},
        "spec": {"affinity": {"podAntiAffinity": side}},
    }


def expressions(body: dict[str, Any]) -> list[Any]:
    side = body["spec"]["affinity"]["podAntiAffinity"]
    label_selectors = [t["labelSelector"] for t in side["requiredDuringSchedulingIgnoredDuringExecution"]]
    label_selectors += [
        t["podAffinityTerm"]["labelSelector"] for t in side["preferredDuringSchedulingIgnoredDuringExecution"]
    ]
    return [selector.get("matchExpressions") for selector in label_selectors]


def test_label_keys_narrow_the_selectors_of_required_and_preferred_terms() -> None:
    same = {"key": "version", "operator": "In", "values": ["2"]}
    other = {"key": "version", "operator": "NotIn", "values": ["2"]}
    for preferred in (False, True):
        body = pod(term(matchLabelKeys=["version"]), term(mismatchLabelKeys=["version"]), preferred=preferred)
        assert expressions(admitted(body)) == [[same], [other]]


def test_a_label_that_the_pod_lacks_narrows_nothing() -> None:
    assert expressions(admitted(pod(term(matchLabelKeys=["tenant"])))) == [[]]


def test_a_pod_of_a_cluster_where_this_was_done_already_stays_as_it_is() -> None:
    once = admitted(pod(term(matchLabelKeys=["version"])))
    assert admitted(once) == once


def test_pods_without_such_keys_are_not_touched_and_none_is_changed_in_place() -> None:
    plain = pod(term())
    assert admitted(plain) is plain
    keyed = pod(term(matchLabelKeys=["version"]))
    before = copy.deepcopy(keyed)
    admitted(keyed)
    assert keyed == before


def test_the_hash_of_a_deployment_is_that_of_its_template() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "one"}]}}
    newer = {**template, "spec": {"containers": [{"name": "main", "image": "two"}]}}
    (old,) = workload_labels("Deployment", "web", template).values()
    assert workload_labels("Deployment", "web", copy.deepcopy(template)) == {"pod-template-hash": old}
    assert workload_labels("Deployment", "web", newer) != {"pod-template-hash": old}


def test_each_controller_has_labels_of_its_own() -> None:
    assert workload_labels("Job", "scan", {}) == {"batch.kubernetes.io/job-name": "scan", "job-name": "scan"}
    assert workload_labels("ReplicaSet", "web", {}) == {}
    assert replica_labels("StatefulSet", "db", 2) == {
        "statefulset.kubernetes.io/pod-name": "db-2",
        "apps.kubernetes.io/pod-index": "2",
    }
    assert replica_labels("Deployment", "web", 2) == {}
