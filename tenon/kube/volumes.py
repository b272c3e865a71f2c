"""What the volumes of a pod require of its node: topology and attachments.

A bound PersistentVolumeClaim (PVC) restricts its pod to the nodes that can access the volume. If a PVC waits for its
first consumer, its volume can be created wherever its StorageClass allows. A pod with any other PVC cannot run yet, so
Tenon launches no node for it.

The PVC of an ephemeral volume is deleted with its pod, and the pod that replaces it gets another one. So where the
volume is now does not matter for where an evicted pod can run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tenon.apis import labels
from tenon.errors import TenonError
from tenon.kube.pod import LocalDisk, Pod
from tenon.kube.requirements import IN, Requirement, Requirements

EBS = "ebs.csi.aws.com"
IN_TREE = {
    "kubernetes.io/aws-ebs": EBS,
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""In-tree provisioners and the CSI drivers that replaced them."""
WAITS = "WaitForFirstConsumer"
"""The binding mode of classes that create a volume where its pod is placed."""
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
"""The annotations that mark a class as the default."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""The annotation of PVCs that are completely bound to their volume. kube-scheduler waits for it too."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The annotation of PVCs with the node that kube-scheduler chose. It accepts no other node until it is removed."""
EXCLUSIVE = "ReadWriteOncePod"
AUTO_MODE_DRIVERS = frozenset({"ebs.csi.eks.amazonaws.com"})
"""Drivers that run only on nodes of EKS Auto Mode."""
AUTO_MODE_KEYS = frozenset({"eks.amazonaws.com/compute-type"})
"""Labels that only nodes of EKS Auto Mode have."""
MAX_ALTERNATIVES = 64
"""The maximum number of combined alternatives for the volumes of one pod."""


def ephemeral_pvc(pod: str, volume: str) -> str:
    """Return the name of the PVC that Kubernetes creates for a pod's ephemeral volume."""
    return f"{pod}-{volume}"


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim:
    """A PVC, or the template of a PVC that is created with its pod."""

    storage_class: str | None = None
    """None for the default class; empty for no class."""
    volume: str = ""
    """The volume that the PVC is bound to or reserved for."""
    bound: bool = False
    lost: bool = False
    leaving: bool = False
    exclusive: bool = False
    """Whether only one pod at a time may use it (ReadWriteOncePod)."""
    selected_node: str = ""
    """The node that kube-scheduler chose for its first pod while its volume is being created; empty if none."""


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    terms: tuple[Requirements, ...] | None = None
    """OR-ed alternatives of the nodes that can access the volume. None for all nodes, empty for no node."""
    driver: str = ""
    leaving: bool = False
    hosts: frozenset[str] = frozenset()
    """The host names of the machine that has it on a disk. ``terms`` leave them out, because it may be gone."""


@dataclass(frozen=True, slots=True)
class StorageClass:
    name: str
    driver: str = ""
    waits: bool = False
    """Whether its volumes are created where their first pod is placed (WaitForFirstConsumer)."""
    terms: tuple[Requirements, ...] | None = None
    """OR-ed alternatives of its allowed topologies. None for all topologies, empty for none."""
    default: bool = False
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class VolumeUse:
    """A volume of a pod: the PVC's ``namespace/name``, and the template of a PVC that is created with its pod."""

    pvc: str
    template: PersistentVolumeClaim | None = None


class Storage(Protocol):
    """The PVCs, volumes and storage classes of a cluster."""

    def pvc(self, key: str) -> PersistentVolumeClaim | None:
        """Return a PVC by ``namespace/name``; None if it does not exist."""
        ...

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume by name; None if it does not exist."""
        ...

    def storage_class(self, name: str | None) -> StorageClass | None:
        """Return a class by name; None stands for the default class."""
        ...


class UnplacedVolumeError(TenonError):
    """No node is known to be able to access a volume. The message is one sentence."""


def with_volumes(pod: Pod, uses: Sequence[VolumeUse], storage: Storage, *, recreated: bool = False) -> Pod:
    """Add the requirements of its volumes to the pod. ``unsupported`` says why it cannot run yet, if so.

    ``recreated``: as they are after the pod's eviction, when its ephemeral volumes are created again.
    """
    if not uses:
        return pod
    claims = [_Claim.of(use, storage, recreated=recreated) for use in uses]
    attachments = tuple(sorted({(driver, claim.key) for claim in claims if (driver := _driver(claim.pvc, storage))}))
    exclusive = tuple(sorted(claim.key for claim in claims if claim.pvc is not None and claim.pvc.exclusive))
    if exclusive:
        pod = replace(pod, exclusive=exclusive)
    if disks := tuple(disk for claim in claims if (disk := _local_disk(claim, storage))):
        pod = replace(pod, local_disks=disks)
    try:
        terms = _combined([of_claim for claim in claims if (of_claim := _terms(claim, storage)) is not None])
    except UnplacedVolumeError as error:
        return replace(pod, attachments=attachments, unsupported=pod.unsupported or str(error))
    return replace(pod, volume_terms=terms, attachments=attachments)


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the newest default class, as the API server does; of classes created together, the first by name."""
    return min(
        (default_storage_class for default_storage_class in classes if default_storage_class.default),
        key=lambda default_storage_class: (-default_storage_class.created, default_storage_class.name),
        default=None,
    )


@dataclass(frozen=True, slots=True)
class _Claim:
    """A claim of a pod: the PVC, or the template from which it is created. None if it has neither."""

    key: str
    pvc: PersistentVolumeClaim | None
    recreated: bool

    @classmethod
    def of(cls, use: VolumeUse, storage: Storage, *, recreated: bool) -> _Claim:
        if recreated and use.template is not None:
            return cls(use.pvc, use.template, recreated=True)
        return cls(use.pvc, storage.pvc(use.pvc) or use.template, recreated=False)


def _terms(claim: _Claim, storage: Storage) -> tuple[Requirements, ...] | None:
    """Return the alternatives of one volume; None if every node can access it."""
    key, pvc = claim.key, claim.pvc
    if pvc is None:
        raise UnplacedVolumeError(f"its volume claim {key} does not exist: create it")
    if pvc.leaving:
        raise UnplacedVolumeError(f"its volume claim {key} is being deleted")
    if pvc.lost:
        raise UnplacedVolumeError(f"its volume claim {key} has lost its volume {pvc.volume}: create it again")
    terms = _of_volume(key, pvc, storage) if pvc.volume else _of_class(key, pvc, storage, recreated=claim.recreated)
    driver = _driver(pvc, storage)
    if driver in AUTO_MODE_DRIVERS:
        raise UnplacedVolumeError(
            f"its volume claim {key} is served by {driver}, which runs on nodes of EKS Auto Mode only"
        )
    return terms


def _of_volume(key: str, pvc: PersistentVolumeClaim, storage: Storage) -> tuple[Requirements, ...] | None:
    volume = storage.volume(pvc.volume)
    if volume is None:
        raise UnplacedVolumeError(f"the volume {pvc.volume} of its claim {key} does not exist")
    if volume.leaving:
        raise UnplacedVolumeError(f"the volume {pvc.volume} of its claim {key} is being deleted")
    if not pvc.bound:
        raise UnplacedVolumeError(f"its volume claim {key} is not bound to the volume {pvc.volume} yet")
    if volume.terms == ():
        raise UnplacedVolumeError(
            f"the volume of its claim {key} matches no node, by its node affinity and its zone labels"
        )
    return volume.terms


def _of_class(
    key: str, pvc: PersistentVolumeClaim, storage: Storage, *, recreated: bool
) -> tuple[Requirements, ...] | None:
    storage_class = storage.storage_class(pvc.storage_class) if pvc.storage_class != "" else None
    if storage_class is None:
        why = f"of the unknown StorageClass {pvc.storage_class}" if pvc.storage_class else "without a StorageClass"
        state = "is deleted with the pod" if recreated else "is not bound"
        raise UnplacedVolumeError(f"its volume claim {key} {state} and {why}")
    if not storage_class.waits and not recreated:  # a PVC that is created again binds before its pod needs a node
        raise UnplacedVolumeError(f"its volume claim {key} is not bound yet, and its StorageClass binds at once")
    foreign = sorted({label for term in storage_class.terms or () for label in term if label in AUTO_MODE_KEYS})
    if foreign:
        raise UnplacedVolumeError(
            f"StorageClass {storage_class.name} of its volume claim {key} allows only nodes of"
            f" EKS Auto Mode ({foreign[0]})"
        )
    if storage_class.terms == ():
        raise UnplacedVolumeError(f"the allowed topologies of StorageClass {storage_class.name} match no node")
    if pvc.selected_node:
        on_node = Requirements.of(Requirement.new(labels.HOSTNAME, IN, (pvc.selected_node,)))
        return tuple(term.with_(on_node) for term in storage_class.terms or (Requirements(),))
    return storage_class.terms


def _local_disk(claim: _Claim, storage: Storage) -> LocalDisk | None:
    pvc = claim.pvc
    volume = storage.volume(pvc.volume) if pvc is not None and pvc.volume else None
    if pvc is None or volume is None or not volume.hosts:
        return None
    return LocalDisk(pvc.volume, claim.key, volume.hosts)


def _driver(pvc: PersistentVolumeClaim | None, storage: Storage) -> str:
    """Return the CSI driver that attaches the volume; empty if it is unknown or the volume needs none."""
    if pvc is None:
        return ""
    volume = storage.volume(pvc.volume) if pvc.volume else None
    if volume is not None:
        return volume.driver
    storage_class = storage.storage_class(pvc.storage_class) if pvc.storage_class != "" else None
    return IN_TREE.get(storage_class.driver, storage_class.driver) if storage_class is not None else ""


def _combined(ways: Sequence[tuple[Requirements, ...]]) -> tuple[Requirements, ...]:
    """Combine one alternative of each volume in every way, without contradictory combinations."""
    combined: dict[Requirements, None] = {Requirements(): None}
    for terms in ways:
        crossed = (combination.with_(term) for combination in combined for term in terms)
        combined = dict.fromkeys(
            combination for combination in crossed if not any(combination[key].contradicts() for key in combination)
        )
        if not combined:
            raise UnplacedVolumeError("no node can reach all of its volumes: they are in different zones")
        if len(combined) > MAX_ALTERNATIVES:
            raise UnplacedVolumeError(f"its volumes have more than {MAX_ALTERNATIVES} alternatives together")
    return tuple(combined) if ways else ()
