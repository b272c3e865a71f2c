"""Plans that are right although they look suspicious: a judge that cries wolf is no judge."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.judging import judge
from tests.oracle.objects import (
    CATALOGUE,
    HOST,
    REQUIRED,
    ZONE,
    Object,
    affinity,
    claim,
    daemon,
    labeled_daemon,
    node,
    plan,
    pod,
    pool,
    spread,
    within,
)
from tests.oracle.parts import BOTH, CLAIMED, NEAR, OPEN, PORT, TAINT, VOLUME, app
from tests.oracle.quantities import amount, asked_by

GATE = {"operator": "Exists"}
DEFAULT_CLASS: Object = {
    "kind": "StorageClass",
    "metadata": {"name": "std", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "volumeBindingMode": "WaitForFirstConsumer",
}
OTHER_VERSIONS: Object = {
    "affinity": {
        "podAntiAffinity": {
            REQUIRED: [
                {
                    "topologyKey": ZONE,
                    "labelSelector": {"matchLabels": {"app": "web"}},
                    "mismatchLabelKeys": ["v"],
                }
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("manifests", "manifest"),
    [
        ([pool(), pod(nodeSelector={ZONE: "a"})], plan(claim("p"))),
        ([pool(taints=[TAINT]), pod(tolerations=[GATE])], plan(claim("p"))),
        ([pool(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), pod()], plan(claim("p"))),
        ([pool(), pod(), daemon(nodeSelector={ZONE: "b"})], plan(claim("p"))),
        ([pool(), pod(), daemon("950m", nodeSelector={"team": "red"})], plan(claim("p"))),
        ([pool(), *VOLUME, pod(**CLAIMED)], plan(claim("p"))),
        ([pool(), pod(cpu="500m", **PORT), pod("q", "500m", ports=[{"hostPort": 81}])], plan(claim("p", "q", cpu="1"))),
        # the pods of one zone come in turn with those of the other
        ([pool("default", within(ZONE, "a", "b")), *(pod(n, **spread()) for n in "pqrs")],
         plan(claim("p"), claim("q"), claim("r", zone="b"), claim("s", zone="b"))),
        # pods that have no such rule come first, and so let the others in
        ([pool("default", within(ZONE, "a", "b")), pod("q"), pod("r"), *(pod(n, **spread()) for n in "ps")],
         plan(claim("q"), claim("r"), claim("p", zone="b"), claim("s", zone="b"))),
        # kube-scheduler knows only the zones of nodes that run
        ([pool(), node(), pod("r", node="n"), pod(**spread())], plan(on={"n": ["p"]})),
        # a zone that the pod rules out is no domain of its spread
        ([pool(), *(pod(n, nodeSelector={ZONE: "a"}, **spread()) for n in "pq")], plan(claim("p"), claim("q"))),
        ([pool("default", within("team", "red", "blue")),
          *(pod(n, nodeSelector={"team": "red"}, **spread("team")) for n in "pq")],
         plan(claim("p", requirements=[within("team", "red")]), claim("q", requirements=[within("team", "red")]))),
        ([pool(), pod(**NEAR), pod("q", **NEAR)], plan(claim("p"), claim("q"))),
        # the first of its kind need not be next to anybody
        ([pool(), app("p", "db", **NEAR), pod("q", **NEAR)], plan(claim("p"), claim("q"))),
        ([pool(), node(zone=None), pod("r", node="n"), pod(**NEAR)], plan(claim("p"))),
        ([pool(), pod("q", labels={"app": "db"}), app("p", "x", **affinity("podAffinity", (ZONE, "db")))],
         plan(claim("q"), claim("p"))),
        # on one node they are in one zone, whichever it is
        ([pool(), pod(cpu="500m", **NEAR), pod("q", "500m", **NEAR)], plan(claim("p", "q", cpu="1", **OPEN))),
        ([pool(), *(pod(n, **affinity("podAntiAffinity", (HOST, "web"))) for n in "pq")],
         plan(claim("p", **OPEN), claim("q", **OPEN))),
        ([pool(), node(), pod("r", node="n", labels={"app": "db"}), pod(**BOTH)], plan(unplaced=("p",))),
        # every node gets these labels
        ([pool(), pod(nodeSelector={"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"})],
         plan(claim("p"))),
        # the old name of the zone label
        ([pool("default", within(ZONE, "a", "b")),
          *(pod(n, **spread("failure-domain.beta.kubernetes.io/zone")) for n in "pq")],
         plan(claim("p"), claim("q", zone="b"))),
        # each keeps away from the other versions only
        ([pool(), *(pod(n, labels={"app": "web", "v": "1"}, **OTHER_VERSIONS) for n in "pq")],
         plan(claim("p"), claim("q"))),
        # a claim without a class has the default one
        ([pool(), DEFAULT_CLASS, {**VOLUME[0], "spec": {}}, pod(**CLAIMED)], plan(claim("p"))),
        # the pod of a DaemonSet comes with each new node
        ([pool(), labeled_daemon("cache"), app("p", "x", **affinity("podAffinity", (HOST, "cache")))],
         plan(claim("p", cpu="1010m", daemons=1))),
        ([pool(), labeled_daemon("cache"), app("p", "x", **affinity("podAffinity", (ZONE, "cache")))],
         plan(claim("p", cpu="1010m", daemons=1))),
    ],
)  # fmt: skip
def test_correct_plans_have_no_findings(manifests: list[Object], manifest: Object) -> None:
    assert not judge(manifests, CATALOGUE, manifest)


@pytest.mark.parametrize(
    ("text", "billionths"),
    [("1", 10**9), ("250m", 250 * 10**6), ("1Gi", 2**30 * 10**9), ("1E", 10**27), ("1e3", 10**12), ("0.5", 5 * 10**8),
     (".5Mi", 2**19 * 10**9), ("1n", 1), ("0.1n", 1), (2, 2 * 10**9), ("12k", 12 * 10**12)],
)  # fmt: skip
def test_quantities(text: Any, billionths: int) -> None:
    assert amount(text) == billionths


def test_requests_of_a_pod_with_init_containers_and_sidecars() -> None:
    """KEP-753: sidecars run on next to what comes after them; a plain init container is over by then."""

    def container(cpu: str, **more: Any) -> Object:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec: Object = {
        "initContainers": [
            container("1", restartPolicy="Always"),
            container("4"),
            container("2", restartPolicy="Always"),
        ],
        "containers": [container("1"), {"resources": {"limits": {"cpu": "500m"}}}],
        "overhead": {"cpu": "100m"},
    }
    assert asked_by(spec)["cpu"] == amount("5100m")
    assert asked_by({**spec, "resources": {"requests": {"cpu": "9"}}})["cpu"] == amount("9100m")
