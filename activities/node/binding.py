"""The step "bind pods": bind the pods that a node was bought for, unless a rule requires kube-scheduler to place them.

Usually the node has a startup cordon until then. If it has none, kube-scheduler first gets a moment and places
most of the pods. One list of the node's pods shows which. Of the missing pods, one of each group that is alike is read
by name: at 10,000 pods, one request per pod would delay every other node. The API server itself refuses to bind a pod
that is gone, is being deleted, has another UID, has scheduling gates or has a node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from activities import loggers
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachableError
from activities.kubernetes.nodeclaims import read_claim
from activities.kubernetes.resources import NODES, PODS
from activities.node.initialization import InitializedNode
from activities.node.node_pod_watch import NodePodWatch
from activities.node.nodes import find_node, pods_on
from activities.node.startup_cordon import remove_startup_cordon
from tenon.apis import labels
from tenon.evolve import evolve
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.planned_pods import PlannedPod, has_same_controller
from tenon.kube.pod_decode import pod_of
from tenon.kube.records import PodRecord
from tenon.kube.scheduler_config import NOTHING, DefaultSpread
from tenon.kube.structs import Object
from tenon.messages.node_steps import BindResult, NodeInput
from tenon.node import startup_cordon
from tenon.node.binding import BindingDecision, choose, is_unscheduled

log = loggers.NODECLAIM_BINDING

CONCURRENCY = 20
"""The maximum number of requests in flight for one node."""

BEHIND = 504
"""The API server's status if its cache does not have a resource version yet."""

WATCH_TRIES = 5
"""How often the API server may answer so, each time after it has waited for three seconds. kube-scheduler would spread
the pods over all nodes, and other pods would lose their room."""

SHOWN_WITHIN = 20.0
"""How many seconds watches may take to show the bound pods. After that, the startup cordon goes all the same."""

MAX_EXTRA_SECONDS = 5.0
"""How many seconds more kube-scheduler gets at most if watches were late."""

WaitForCache = Callable[[], Awaitable[None]]


async def bind(
    kube: Kube,
    node_input: NodeInput,
    settle: WaitForCache,
    default_spread: DefaultSpread = NOTHING,
    initialized: InitializedNode | None = None,
) -> BindResult:
    """Bind the claim's planned pods, then remove the startup cordon. Leave the other pods to kube-scheduler.

    Args:
        kube: the cluster.
        node_input: the claim and its Node.
        settle: waits to give kube-scheduler a moment. Called before binding to a node without a startup cordon, if a
            planned pod has no node yet; before removing a startup cordon, if pods were bound and watches have shown
            them; and after removing it, if other pods may take the room of planned pods.
        default_spread: how kube-scheduler spreads pods without topology spread constraints.
        initialized: the claim and its Node, if the caller has just written them.

    Returns:
        The counts. ``bound`` includes pods that are already on the node, so that a retry returns the same.
    """
    claim: ClaimRecord | None
    node: Object | None
    if initialized is not None:
        claim, node = initialized.claim, initialized.node
    else:
        claim, node = await _read_both(kube, node_input)
    entries = claim.planned_pods if claim is not None else []
    if node is not None and not startup_cordon.has_startup_cordon(node):
        if await _any_unscheduled(kube, _missing(entries, await pods_on(kube, node["metadata"]["name"]))):
            await settle()
        # While waiting, the claim may have been deleted and the Node cordoned.
        claim, node = await _read_both(kube, node_input)
    if claim is None or node is None or claim.deleting:
        return BindResult(planned=len(entries), for_scheduler=len(entries))
    if not startup_cordon.has_startup_cordon(node):
        return await _bind(kube, entries, node, default_spread, set())
    async with NodePodWatch(kube, node["metadata"]["name"]) as watch:
        bound_uids: set[str] = set()
        result = await _bind(kube, entries, node, default_spread, bound_uids)
        if result.bound:  # until kube-scheduler has seen the bound pods, or it would assign the same room again
            await _await_shown(watch, bound_uids, node, settle)
    await remove_startup_cordon(kube, node)
    if result.running is not None and result.bound < result.planned:
        await settle()  # until kube-scheduler has assigned the free room to other pods
        node_pods = await pods_on(kube, node["metadata"]["name"], latest=False)
        result = evolve(result, running=max(_running(node_pods), result.running))
    return result


async def _await_shown(watch: NodePodWatch, uids: Collection[str], node: Object, settle: WaitForCache) -> None:
    """Wait until a watch has shown the pods, and then the moment that kube-scheduler needs.

    If the watch was late, kube-scheduler's may be later: it gets as many seconds more.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    if not await watch.shows(uids, SHOWN_WITHIN):
        log.warning(
            "The API server's watches are behind, and kube-scheduler may not know the bound pods of a node",
            extra={"node": node["metadata"]["name"], "pod-count": len(uids)},
        )
    late = clock() - began
    await settle()
    await asyncio.sleep(min(late, MAX_EXTRA_SECONDS))


async def _bind(
    kube: Kube, entries: Sequence[PlannedPod], node: Object, default_spread: DefaultSpread, bound_uids: set[str]
) -> BindResult:
    """Bind the pods. ``bound_uids`` receives the UIDs of those that Tenon binds now."""
    if not entries or object_json.labels(node).get(labels.INITIALIZED) != "true":
        return BindResult(planned=len(entries), for_scheduler=len(entries))
    choice, node_pods = await _choose(kube, entries, node, default_spread)
    if choice.bind and not await _may_bind(kube, node):
        open_pods = len(choice.other_pods) + len(choice.bind)
        return BindResult(
            bound=len(choice.bound_here), planned=len(entries), for_scheduler=open_pods, running=_running(node_pods)
        )

    async def post(pod: PodRecord) -> bool:
        try:
            if not await kube.bind(pod.pod.namespace, pod.pod.name, node["metadata"]["name"], pod.uid):
                return False
        except ApiUnreachableError:
            raise
        except ApiError as error:  # for example from an admission webhook; the other pods and the node must not wait
            log.warning("The worker failed to bind a pod", extra={"pod": pod.key, "error": str(error)})
            return False
        bound_uids.add(pod.uid)
        return True

    bound = sum(await bounded(choice.bind, CONCURRENCY, post))
    return BindResult(
        bound=bound + len(choice.bound_here),
        planned=len(entries),
        for_scheduler=len(choice.other_pods) + len(choice.bind) - bound,
        running=_running(node_pods) + bound,
    )


async def _may_bind(kube: Kube, node: Object) -> bool:
    """Whether watches have sent the Node as it was read, and it is still kept for its planned pods if it was.

    An overloaded API server may send changes of Nodes many seconds later than changes of pods. A client that sees the
    pod first, and the removal of the NoExecute taints later, takes the pod for one that must not run there:
    kube-controller-manager evicts it, and the kubelet refuses it. kube-scheduler cannot bind too early, because it
    reads Nodes from a watch itself.

    Without a startup cordon, late watches also mean that kube-scheduler is late. It may still assign the same room to
    other pods, so it gets the planned ones too.
    """
    name = node["metadata"]["name"]
    has_cordon = startup_cordon.has_startup_cordon(node)
    problem = ""
    for _ in range(WATCH_TRIES if has_cordon else 1):
        try:
            watched = await kube.get(NODES, name, not_older_than=node["metadata"]["resourceVersion"])
        except ApiUnreachableError:
            raise
        except ApiError as error:
            if error.status != BEHIND:
                raise
            problem = str(error)
        else:
            return watched is not None and startup_cordon.has_startup_cordon(watched) == has_cordon
    log.warning(
        "The API server's watches are behind, and kube-scheduler binds the pods of a node",
        extra={"node": name, "error": problem},
    )
    return False


def _running(node_pods: Sequence[PodRecord]) -> int:
    """The number of pods that would have to move to another node if this node were removed."""
    return sum(pod.reschedulable for pod in node_pods)


async def _read_both(kube: Kube, node_input: NodeInput) -> tuple[ClaimRecord | None, Object | None]:
    claim = await read_claim(kube, node_input.claim)
    return claim, (await find_node(kube, node_input, claim)).node if claim is not None else None


async def _choose(
    kube: Kube, entries: Sequence[PlannedPod], node: Object, default_spread: DefaultSpread
) -> tuple[BindingDecision, Sequence[PodRecord]]:
    """Decide which planned pods to bind. Also return the pods that are on the node."""
    name = node["metadata"]["name"]
    node_pods = await pods_on(kube, name)
    bound_elsewhere = await _read(kube, _missing(entries, node_pods))
    if not startup_cordon.has_startup_cordon(node) and any(
        is_unscheduled(entry, bound_elsewhere.get(entry.key)) for entry in entries
    ):
        # Read the node's pods last, to see what kube-scheduler has placed there since.
        node_pods = await pods_on(kube, name)
    return choose(
        entries, bound_elsewhere | {pod.key: pod for pod in node_pods}, node, node_pods, default_spread
    ), node_pods


async def _any_unscheduled(kube: Kube, entries: Sequence[PlannedPod]) -> bool:
    """Whether one of the pods has no node yet. If so, usually the first request shows it."""
    for entry in entries:
        if is_unscheduled(entry, await _read_pod(kube, entry)):
            return True
    return False


def _missing(entries: Sequence[PlannedPod], node_pods: Sequence[PodRecord]) -> list[PlannedPod]:
    """The planned pods that are not on the node."""
    uids = {pod.uid for pod in node_pods}
    return [entry for entry in entries if entry.uid not in uids]


async def _read_pod(kube: Kube, entry: PlannedPod) -> PodRecord | None:
    body = await kube.get(PODS, entry.name, entry.namespace)
    return pod_of(body) if body is not None else None


async def _read(kube: Kube, entries: Sequence[PlannedPod]) -> dict[str, PodRecord]:
    """The pods that exist, by key. Where the first pod of a group waits for a node, the others of its controller are
    copies of it.
    """

    async def read(entry: PlannedPod) -> PodRecord | None:
        return await _read_pod(kube, entry)

    groups: dict[str, list[PlannedPod]] = {}
    for entry in entries:
        groups.setdefault(f"group {entry.group}" if entry.group else entry.key, []).append(entry)
    pods_by_key: dict[str, PodRecord | None] = {}
    others: list[PlannedPod] = []
    first = [alike_pods[0] for alike_pods in groups.values()]
    for entry, pod, alike_pods in zip(first, await bounded(first, CONCURRENCY, read), groups.values(), strict=True):
        pods_by_key[entry.key] = pod
        waits = pod is not None and is_unscheduled(entry, pod)
        for other in alike_pods[1:]:
            if pod is not None and waits and has_same_controller(pod.pod, other):
                pods_by_key[other.key] = _like(pod, other)
            else:
                others.append(other)
    pods_by_key |= zip((entry.key for entry in others), await bounded(others, CONCURRENCY, read), strict=True)
    return {key: pod for key, pod in pods_by_key.items() if pod is not None}


def _like(pod: PodRecord, other: PlannedPod) -> PodRecord:
    """The pod under the name and UID of another, without a nomination of its own."""
    return replace(
        pod, nominated_node="", pod=replace(pod.pod, namespace=other.namespace, name=other.name, uid=other.uid)
    )
