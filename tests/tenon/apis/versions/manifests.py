"""Any object of v1 and of v1beta1 that an API server may hold, for hypothesis."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from tenon.apis.ami_families import AMIFamily
from tenon.apis.legacy.amis import OldFamily

Manifest = dict[str, Any]
Manifests = st.SearchStrategy[Manifest]

WORDS = st.sampled_from(["a", "b", "web", "karpenter.sh/x"])
DURATIONS = st.sampled_from(["0s", "30s", "1h30m", "720h"])
DURATIONS_OR_NEVER = DURATIONS | st.just("Never")
NUMBERS = st.integers(0, 40).map(str)


def some(required: dict[str, Any] | None = None, **optional: Any) -> Manifests:
    """A mapping with these fields, each optional one there or not."""
    return st.fixed_dictionaries(required or {}, optional=optional)


def lists(items: Any, least: int = 0) -> Any:
    return st.lists(items, min_size=least, max_size=4)


def terms(*bounds: str) -> Manifests:
    values = {"key": WORDS, "operator": st.sampled_from(["In", "NotIn"]), "values": lists(WORDS, 1)}
    bound = {"key": WORDS, "operator": st.sampled_from(bounds), "values": NUMBERS.map(lambda number: [number])}
    return (
        some({"key": WORDS, "operator": st.sampled_from(["Exists", "DoesNotExist"])})
        | some(values, minValues=st.integers(1, 2))
        | some(bound, minValues=st.integers(1, 2))
    )


V1_TERMS = lists(terms("Gt", "Lt", "Gte", "Lte"))
OLD_TERMS = lists(terms("Gt", "Lt"))
TAINTS = lists(some({"key": WORDS, "effect": st.sampled_from(["NoSchedule", "NoExecute"])}, value=WORDS))
KUBELET = some(maxPods=st.integers(0, 250), clusterDNS=lists(WORDS), kubeReserved=some(cpu=st.just("100m")))
V1_REFERENCE = some({"group": st.just("karpenter.k8s.aws"), "kind": st.just("EC2NodeClass"), "name": WORDS})
OLD_REFERENCE = some(
    {"name": WORDS},
    apiVersion=st.sampled_from(["karpenter.k8s.aws/v1beta1", "karpenter.k8s.aws/v1", "other/v1beta1", "odd"]),
    kind=st.sampled_from(["EC2NodeClass", "Other"]),
)
CONDITION = some(
    {"type": st.sampled_from(["Ready", "Launched", "Empty", "Expired", "Drifted", "Consolidatable"]), "status": WORDS}
)
_ANNOTATIONS: dict[str, Any] = {
    "own": WORDS,
    "compatibility.karpenter.sh/v1beta1-kubelet-conversion": st.sampled_from(['{"maxPods": 5}', "{}", "[", "5"]),
    "compatibility.karpenter.sh/v1beta1-nodeclass-reference": st.sampled_from(['{"name":"a"}', "{}", "x"]),
    "compatibility.karpenter.k8s.aws/v1-alias-version": st.sampled_from(["latest", "v20240807", ""]),
    "compatibility.karpenter.k8s.aws/v1beta1-ubuntu": st.sampled_from(
        ["amiFamily", "amiFamily,blockDeviceMappings", "amiFamily,incompatible", "", "odd"]
    ),
}
ANNOTATIONS = some(**_ANNOTATIONS).filter(bool)
METADATA = some({"name": WORDS}, annotations=ANNOTATIONS, labels=some({"karpenter.sh/nodepool": WORDS}))


def whole(version: str, kind: str, spec: Any, status: Any) -> Manifests:
    return some(
        {"apiVersion": st.just(version), "kind": st.just(kind), "metadata": METADATA, "spec": spec}, status=status
    )


def budgets(**more: Any) -> Any:
    return lists(some({"nodes": st.sampled_from(["10%", "0", "5"])}, schedule=WORDS, duration=DURATIONS, **more))


RESOURCES = some(requests=some(cpu=NUMBERS))
V1_NODE = {"requirements": V1_TERMS, "nodeClassRef": V1_REFERENCE, "expireAfter": DURATIONS_OR_NEVER}
OLD_NODE = {"requirements": OLD_TERMS, "nodeClassRef": OLD_REFERENCE}
V1_POOLS = whole(
    "karpenter.sh/v1",
    "NodePool",
    some(
        {
            "template": some(
                {"spec": some(V1_NODE, taints=TAINTS, startupTaints=TAINTS, terminationGracePeriod=DURATIONS)},
                metadata=some(labels=some(team=WORDS)),
            )
        },
        disruption=some(
            consolidationPolicy=st.sampled_from(["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"]),
            consolidateAfter=DURATIONS_OR_NEVER,
            budgets=budgets(reasons=lists(st.sampled_from(["Empty", "Drifted"]))),
        ).filter(bool),
        limits=some(cpu=NUMBERS),
        weight=st.integers(1, 100),
        replicas=st.integers(0, 9),
    ),
    some(
        resources=some(cpu=NUMBERS),
        nodes=st.integers(0, 9),
        nodeClassObservedGeneration=st.integers(1, 9),
        pricePerHour=st.sampled_from(["0.0000", "1.5360"]),
        conditions=lists(CONDITION),
    ).filter(bool),
)
OLD_POOLS = whole(
    "karpenter.sh/v1beta1",
    "NodePool",
    some(
        {
            "template": some(
                {"spec": some(OLD_NODE, taints=TAINTS, startupTaints=TAINTS, kubelet=KUBELET, resources=RESOURCES)},
                metadata=some(labels=some(team=WORDS)),
            ),
            "disruption": some(
                {"expireAfter": DURATIONS_OR_NEVER},
                consolidationPolicy=st.sampled_from(["WhenEmpty", "WhenUnderutilized"]),
                consolidateAfter=DURATIONS_OR_NEVER,
                budgets=budgets(),
            ),
        },
        limits=some(cpu=NUMBERS),
        weight=st.integers(1, 100),
    ),
    some(resources=some(cpu=NUMBERS), conditions=lists(CONDITION)).filter(bool),
)
V1_CLAIMS = whole(
    "karpenter.sh/v1",
    "NodeClaim",
    some(V1_NODE, taints=TAINTS, resources=RESOURCES, terminationGracePeriod=DURATIONS),
    some(providerID=WORDS, conditions=lists(CONDITION), lastPodEventTime=WORDS).filter(bool),
)
OLD_CLAIMS = whole(
    "karpenter.sh/v1beta1",
    "NodeClaim",
    some(OLD_NODE, taints=TAINTS, resources=RESOURCES, kubelet=KUBELET),
    some(providerID=WORDS, conditions=lists(CONDITION)).filter(bool),
)

ALIASES = st.sampled_from(["al2@latest", "al2023@v20240807", "bottlerocket@v1.2.3", "windows2025@latest"])
OLD_IMAGE_TERMS = some({"id": WORDS}) | some({"name": WORDS}, owner=WORDS, tags=some(a=WORDS))
V1_IMAGE_TERMS = lists(OLD_IMAGE_TERMS | some({"ssmParameter": WORDS}), 1) | ALIASES.map(lambda a: [{"alias": a}])
OPTIONS = some(httpTokens=st.sampled_from(["required", "optional"]), httpPutResponseHopLimit=st.integers(1, 3))
CLASS = {"subnetSelectorTerms": lists(some({"id": WORDS})), "role": WORDS}


def volumes(**more: Any) -> Any:
    return lists(
        some({"deviceName": WORDS, "ebs": some({"volumeSize": st.just("20Gi")}, **more)}, rootVolume=st.just(True))
    )


def images(**more: Any) -> Any:
    return some(amis=lists(some({"id": WORDS, "requirements": OLD_TERMS}, **more))).filter(bool)


V1_CLASSES = whole(
    "karpenter.k8s.aws/v1",
    "EC2NodeClass",
    some(
        {**CLASS, "amiSelectorTerms": V1_IMAGE_TERMS},
        amiFamily=st.sampled_from(get_args(AMIFamily)),
        metadataOptions=OPTIONS,
        blockDeviceMappings=volumes(volumeInitializationRate=st.integers(100, 300)),
        kubelet=KUBELET,
        ipPrefixCount=st.integers(0, 2),
        capacityReservationSelectorTerms=lists(some({"id": st.sampled_from(["cr-1", "cr-0a"])})),
        cpuOptions=some(nestedVirtualization=st.just("enabled")),
        enclaveOptions=st.fixed_dictionaries({"enabled": st.booleans()}),
    ),
    images(deprecated=st.booleans()) | some({"capacityReservations": lists(some({"id": WORDS}))}),
)
OLD_CLASSES = whole(
    "karpenter.k8s.aws/v1beta1",
    "EC2NodeClass",
    some(
        {**CLASS, "amiFamily": st.sampled_from(get_args(OldFamily))},
        amiSelectorTerms=lists(OLD_IMAGE_TERMS),
        metadataOptions=OPTIONS,
        blockDeviceMappings=volumes(),
    ),
    images(),
)
V1_OBJECTS = V1_POOLS | V1_CLAIMS | V1_CLASSES
OLD_OBJECTS = OLD_POOLS | OLD_CLASSES
