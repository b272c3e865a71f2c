"""The free capacity of the cluster's nodes, and of the NodeClaims that will become nodes.

Until a node is initialized, it counts with the capacity that its claim states and without its startup taints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from activities import loggers
from tenon.apis import labels
from tenon.apis.warm import STARTING, STOPPED
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.limit_ranges import requests_by_namespace
from tenon.kube.pod import Pod
from tenon.kube.records import NodeRecord, PodRecord
from tenon.kube.requests import effective_requests
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint, untolerated
from tenon.provisioning.claims import planned_requests
from tenon.provisioning.warm_nodes import taints_once_started
from tenon.resources import total
from tenon.scheduling.model import LATER_LABELS, Node
from worker.cache.csi_drivers import is_settled
from worker.cache.evacuating_pods import leaving
from worker.cache.planned_places import planned_places
from worker.cache.quantities import claimed, credible, stated
from worker.cache.state import ClusterState

log = loggers.CACHE


def scheduling_nodes(state: ClusterState, now: float) -> list[Node]:
    """Existing and in-flight capacity that may take pods, sorted by name.

    Pods planned for a claim count as used there. A claim without an instance counts with the requests of its planned
    pods, because every instance type that it may become has that much room in addition to its DaemonSets. Pods that
    come in place of planned ones fit there, and nothing is bought twice. A node that is leaving offers no capacity. It
    is listed, closed, only if it has pods that no claim was bought for, because rules between pods still count those.
    An initialized claim whose Node vanished offers none either.
    """
    expected = Expected(state, now)
    nodes: list[Node] = []
    paired: set[str] = set()
    for record in state.nodes:
        claim = state.claim_of(record)
        if claim is not None:
            paired.add(claim.name)
        if not leaving(record, claim):
            nodes.append(_kept_or_existing(state, record, claim, expected))
        elif counted := _counted(state, _there(state, record), expected):
            nodes.append(Node(record.name, record.labels, record.taints, {}, {}, pods=counted, closed=True))
    state.kept_nodes.keep_only(state.nodes.keys())
    for claim in state.claims:
        if claim.name in paired or claim.deleting or claim.initialized:
            continue
        try:
            nodes.append(_in_flight(claim, expected))
        except ValueError as error:
            log.warning(
                "A NodeClaim cannot be read and is left out of planning",
                extra={"nodeclaim": claim.name, "error": str(error)},
            )
    return sorted(nodes, key=lambda node: node.name)


def daemon_pods(state: ClusterState) -> list[Pod]:
    """One pod for each DaemonSet, sorted by key. It has the requests of a live pod, which admission may have filled in,
    or with which VPA would create it on another node.

    Of several live pods the newest counts, because older ones may be of an earlier template, and one that is being
    deleted only if all are.

    If there is no live pod, the template's requests are used, with the defaults of LimitRanges.
    """
    uids = {daemon.uid for daemon in state.daemonsets}
    newest: dict[str, PodRecord] = {}
    for record in state.pods if uids else ():
        if record.owner_uid in uids and record.daemon and not record.terminal:
            other = newest.get(record.owner_uid)
            if other is None or _daemon_rank(record) > _daemon_rank(other):
                newest[record.owner_uid] = record
    live = {uid: state.predictions.created_again(record, record.pod).requests for uid, record in newest.items()}
    defaults = requests_by_namespace(state.limit_ranges)
    pods = []
    for daemon in sorted(state.daemonsets, key=lambda daemon: daemon.key):
        requests = live.get(daemon.uid, daemon.pod.requests)
        if daemon.uid not in live and (namespace_defaults := defaults.get(daemon.pod.namespace)):
            requests = effective_requests(daemon.spec, defaults=namespace_defaults)
        pods.append(daemon.pod if requests == daemon.pod.requests else replace(daemon.pod, requests=requests))
    return pods


def _daemon_rank(record: PodRecord) -> tuple[bool, float]:
    return not record.deleting, record.pod.created


class Expected:
    """The pods still to come to a node: DaemonSet pods, pods that a claim was bought for, and nominated pods."""

    def __init__(self, state: ClusterState, now: float) -> None:
        self.now = now
        self.all_daemons = state.kept_nodes.common(tuple(daemon_pods(state)))
        """One pod for each DaemonSet."""
        self._planned: dict[str, list[Pod]] = {}
        self.decided: set[str] = set()
        """UIDs of the pods that a claim was bought for."""
        self._former_nodes: set[str] = set()
        """The Nodes that those of them leave that run."""
        self._nominated = {
            node_name: [state.scheduling_pod(record) for record in records]
            for node_name, records in state.nominated_pods().items()
        }
        by_uid = {record.uid: record for record in (*state.pending(), *state.pods_to_move())}
        for uid, claim in planned_places(state, now).items():
            if uid in by_uid:
                self._planned.setdefault(claim, []).append(state.planned_pod(by_uid[uid]))
                self.decided.add(uid)
                self._former_nodes.add(by_uid[uid].node_name)

    def concerns(self, node_name: str, claim: ClaimRecord | None) -> bool:
        """Whether a pod is on its way to this node, or leaves it for a claim that was bought for it."""
        on_its_way = node_name in self._nominated or (claim is not None and claim.name in self._planned)
        return on_its_way or node_name in self._former_nodes

    def daemons(self, node: Requirements, taints: Iterable[Taint], *, managed: bool = True) -> list[Pod]:
        """The DaemonSet pods that belong on such a node, whether or not they are already there.

        A node with a NodeClaim (``managed``) counts as registered and initialized, because it will get those labels.
        """
        present = tuple(taints)
        if managed:
            node = node.with_(Requirements({key: r for key, r in LATER_LABELS.items() if key not in node}))
        return [
            daemon
            for daemon in self.all_daemons
            if untolerated(daemon.tolerations, present) is None and _matches(daemon, node)
        ]

    def nominated(self, node_name: str) -> list[Pod]:
        """The pods for which kube-scheduler makes room on a Node. It gives that room to no less important pod."""
        return self._nominated.get(node_name, [])

    def planned(self, claim: str) -> list[Pod]:
        """The pods that are still on their way to a claim."""
        return self._planned.get(claim, [])


def _kept_or_existing(state: ClusterState, record: NodeRecord, claim: ClaimRecord | None, expected: Expected) -> Node:
    """An existing node, which is computed again only if something has changed that it is computed from."""
    if expected.concerns(record.name, claim):
        return _existing(state, record, claim, _there(state, record), expected)
    pods = state.pods_by_key(record.name)
    sources = (
        record,
        claim if claim is not None and not _initialized(record, claim) else claim is not None,
        claim is not None and bool(claim.status.get("capacity")),  # which stays as it is after the launch
        claim.warm if claim is not None else "",
        pods,
        state.csi.nodes.get(record.name),
        state.csi.required,
        is_settled(_ready_since(record, claim), expected.now),
        state.storage.changes if any(pod.volumes for pod in pods.values()) else None,
        state.spreading.changes,
        expected.all_daemons,
    )
    node = state.kept_nodes.get(record.name, sources)
    if node is None:
        node = _existing(state, record, claim, _there(state, record), expected)
        state.kept_nodes.put(record.name, sources, node)
    return node


def _there(state: ClusterState, record: NodeRecord) -> list[PodRecord]:
    """The pods of a node that have not terminated."""
    return [pod for pod in state.pods_on(record.name) if not pod.terminal]


def _initialized(record: NodeRecord, claim: ClaimRecord | None) -> bool:
    """Whether the node is as it stays. One that reboots comes back, so it counts like one that starts (N15-169)."""
    return claim is None or (record.labels.get(labels.INITIALIZED) == "true" and not claim.rebooting)


def _existing(
    state: ClusterState,
    record: NodeRecord,
    claim: ClaimRecord | None,
    node_pods: Sequence[PodRecord],
    expected: Expected,
) -> Node:
    """An existing node. ``node_pods`` holds its pods that have not terminated."""
    initialized = _initialized(record, claim)
    node_labels = record.labels
    taints = record.taints
    bought = claimed(claim, "capacity") if claim is not None else {}
    allocatable, capacity = credible(record.allocatable, bought), credible(record.capacity, bought)
    if claim is not None and not initialized:
        node_labels = {**LATER_LABELS.labels(), **claim.labels, **record.labels}
        taints = _lasting_taints(taints, claim)
        allocatable = {**claimed(claim, "allocatable"), **stated(allocatable)}
    elif claim is not None and record.ready:
        # kube-controller-manager sets this taint by the condition Ready, sometimes of an older Node than this one. It
        # goes within a moment, so nothing is bought because of it, and a buffer's room does not seem to be gone.
        taints = tuple(taint for taint in taints if taint.key != labels.NOT_READY_TAINT)
    served = {pod.owner_uid for pod in node_pods if pod.daemon}
    daemons: list[Pod] = []
    if expected.all_daemons:
        lasting = taints
        if claim is not None and claim.warm in (STOPPED, STARTING):
            # Plans fill the node for when it has started, and DaemonSet pods that these taints keep away come then.
            lasting = taints_once_started(_lasting_taints(taints, claim))
        daemons = expected.daemons(Requirements.from_labels(node_labels), lasting, managed=claim is not None)
    missing = [daemon for daemon in daemons if daemon.uid not in served]
    planned = expected.nominated(record.name) + (expected.planned(claim.name) if claim is not None else [])
    return Node(
        name=record.name,
        labels=node_labels,
        taints=taints,
        allocatable=allocatable,
        used=total((state.used(record.name), *(pod.requests for pod in (*missing, *planned)))),
        initialized=initialized,
        host_ports=_ports((pod.pod for pod in node_pods), planned, daemons),
        pods=(*_counted(state, node_pods, expected), *planned, *(() if initialized else missing)),
        volume_limits=_volume_limits(state, record, claim, node_pods, expected.now),
        capacity=capacity,
        terminating_users=_terminating_users(state, node_pods),
    )


def _terminating_users(state: ClusterState, node_pods: Iterable[PodRecord]) -> Mapping[str, str]:
    """The ReadWriteOncePod claims of pods that are terminating, which no other pod can use until these have ended."""
    terminating_pods = (state.scheduling_pod(pod) for pod in node_pods if pod.deleting and pod.volumes)
    return {claim: pod.key for pod in terminating_pods for claim in pod.exclusive}


def _counted(state: ClusterState, node_pods: Iterable[PodRecord], expected: Expected) -> tuple[Pod, ...]:
    """The pods that rules between pods count on a node: those that are neither terminating nor planned for another
    node.
    """
    return tuple(state.scheduling_pod(pod) for pod in node_pods if not pod.deleting and pod.uid not in expected.decided)


def _ready_since(record: NodeRecord, claim: ClaimRecord | None) -> float | None:
    """When the node became ready for pods; None if it is not."""
    if claim is None:
        return record.created
    since = claim.initialized_at
    return since.timestamp() if since is not None and _initialized(record, claim) else None


def _volume_limits(
    state: ClusterState, record: NodeRecord, claim: ClaimRecord | None, node_pods: Iterable[PodRecord], now: float
) -> Mapping[str, int]:
    """How many volumes of each CSI driver the node can attach, minus the volumes of pods that are terminating."""
    limits = state.csi.limits(record.name, _ready_since(record, claim), now)
    if not limits:
        return limits
    attached: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
    for pod in node_pods:
        attached[pod.deleting].update(state.scheduling_pod(pod).attachments)
    attachments = Counter(driver for driver, _ in attached[True] - attached[False])
    return {driver: most - attachments[driver] for driver, most in limits.items()} if attachments else limits


def _in_flight(claim: ClaimRecord, expected: Expected) -> Node:
    requirements = Requirements.from_terms(claim.spec.get("requirements") or ()).with_(
        Requirements.from_labels(claim.labels)
    )
    taints = _lasting_taints(claim.taints, claim)
    planned = expected.planned(claim.name)
    allocatable = claimed(claim, "allocatable")
    launched = bool(allocatable)
    daemons = expected.daemons(requirements, taints)
    # Which DaemonSets come depends on the instance. Before the launch, neither they nor room for them count.
    pods = [*daemons, *planned] if launched else planned
    return Node(
        name=claim.name,
        labels={**LATER_LABELS.labels(), **requirements.labels(), **claim.labels},
        taints=taints,
        allocatable=allocatable if launched else planned_requests(claim.annotations),
        used=total(pod.requests for pod in pods),
        initialized=False,
        host_ports=_ports(planned, daemons),
        requirements=requirements,
        pods=tuple(pods),
    )


def _lasting_taints(taints: Iterable[Taint], claim: ClaimRecord) -> tuple[Taint, ...]:
    """The taints that remain after the node has started."""
    startup = {(taint.key, taint.effect) for taint in claim.startup_taints}
    return tuple(
        taint
        for taint in taints
        if (taint.key, taint.effect) not in startup
        and not labels.is_ephemeral_taint(taint.key, taint.effect)
        and not (claim.rebooting and labels.is_reboot_taint(taint.key, taint.effect))
    )


def _matches(pod: Pod, node: Requirements) -> bool:
    """Whether a DaemonSet pod's node affinity matches such a node."""
    return not pod.required_terms or any(node.conflict(term) is None for term in pod.required_terms)


def _ports(*groups: Iterable[Pod]) -> tuple[tuple[str, int, str], ...]:
    return tuple(sorted({port for group in groups for pod in group for port in pod.host_ports}))
