"""Where the volumes of a pod can be reached, and how many a node can have attached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from tenon.apis import labels
from tenon.scheduling.requirements import Requirements
from tenon.simulation.objects import Body, Found, Objects

EBS = "ebs.csi.aws.com"
IN_TREE: Mapping[str, str] = {"kubernetes.io/aws-ebs": EBS}
"""Provisioners of old names, by the driver that serves them now."""
WAITS = "WaitForFirstConsumer"
"""The binding mode of classes whose volumes are made where the pod goes."""
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
MOST_WAYS = 64
"""Alternatives that the volumes of one pod may have together."""


class UnplacedVolumeError(Exception):
    """A volume that no node is known to reach, in one sentence."""


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """What a pod's volumes ask of its node: OR-ed alternatives, and (driver, claim) of what must be attached."""

    terms: tuple[Requirements, ...] = ()
    attachments: tuple[tuple[str, str], ...] = ()


class Volumes:
    """The claims, volumes and classes of an input."""

    def __init__(self, objects: Objects) -> None:
        """Read nothing yet."""
        self._objects = objects

    def facts(self, pod: Body) -> VolumeFacts:
        """What the pod's volumes ask of its node.

        Raises:
            UnplacedVolumeError: one of them cannot be reached from anywhere yet.
        """
        ways: list[tuple[Requirements, ...]] = []
        attachments: list[tuple[str, str]] = []
        for key, claim in self._claims(pod):
            if claim is None:
                raise UnplacedVolumeError(f"its volume claim {key} is not there: create it")
            terms = self._terms(key, claim)
            if terms:
                ways.append(terms)
            if driver := self._driver(claim):
                attachments.append((driver, key))
        return VolumeFacts(_together(ways), tuple(sorted(set(attachments))))

    def limits(self, node: str) -> dict[str, int]:
        """How many volumes of each driver the node can have attached, as its CSINode says."""
        found = self._get("CSINode", node)
        drivers = (found.get("spec") or {}).get("drivers") or () if found is not None else ()
        counts = {driver["name"]: (driver.get("allocatable") or {}).get("count") for driver in drivers}
        return {name: count for name, count in sorted(counts.items()) if count is not None}

    def _claims(self, pod: Body) -> Iterator[tuple[str, Body | None]]:
        namespace = pod["metadata"].get("namespace") or "default"
        for volume in pod["spec"].get("volumes") or ():
            if volume.get("persistentVolumeClaim"):
                key = f"{namespace}/{volume['persistentVolumeClaim']['claimName']}"
                yield key, self._get("PersistentVolumeClaim", key)
            elif volume.get("ephemeral") is not None:
                key = f"{namespace}/{pod['metadata']['name']}-{volume.get('name', '')}"
                made = self._get("PersistentVolumeClaim", key)
                yield key, made or volume["ephemeral"].get("volumeClaimTemplate") or {}

    def _terms(self, key: str, claim: Body) -> tuple[Requirements, ...]:
        spec = claim.get("spec") or {}
        if name := spec.get("volumeName"):
            volume = self._get("PersistentVolume", name)
            if volume is None:
                raise UnplacedVolumeError(f"the volume {name} of its claim {key} is not there")
            return _reachable_from(key, volume["spec"])
        storage = self.storage_class(spec)
        if storage is None:
            named = spec.get("storageClassName")
            why = f"of the unknown StorageClass {named}" if named else "without a StorageClass"
            raise UnplacedVolumeError(f"its volume claim {key} is not bound and {why}")
        if storage.get("volumeBindingMode") != WAITS:
            raise UnplacedVolumeError(f"its volume claim {key} is not bound yet, and its StorageClass binds at once")
        return tuple(
            Requirements.from_terms(
                {"key": each["key"], "operator": "In", "values": each["values"]}
                for each in topology.get("matchLabelExpressions") or ()
            )
            for topology in storage.get("allowedTopologies") or ()
        )

    def _driver(self, claim: Body) -> str:
        spec = claim.get("spec") or {}
        volume = self._get("PersistentVolume", spec.get("volumeName") or "")
        if volume is not None:
            csi = (volume["spec"].get("csi") or {}).get("driver") or ""
            return csi or (EBS if volume["spec"].get("awsElasticBlockStore") else "")
        storage = self.storage_class(spec)
        provisioner = str(storage.get("provisioner") or "") if storage is not None else ""
        return IN_TREE.get(provisioner, provisioner)

    def storage_class(self, spec: Mapping[str, Any]) -> Body | None:
        """The class of a claim by its spec, the default class where it names none; None when it is not there."""
        named = spec.get("storageClassName")
        if named is not None:
            return self._get("StorageClass", named)
        for found in sorted(self._objects.of("StorageClass"), key=lambda found: found.name):
            if (found.body["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true":
                return found.body
        return None

    def _get(self, kind: str, key: str) -> Body | None:
        found = self._objects.by_kind.get(kind, {}).get(key)
        return found.body if found is not None else None


def add_template_claims(objects: Objects, workload: Found, pod: Found) -> None:
    """Give a pod the volumes that its StatefulSet's claim templates make for it.

    Claims that are there hold the pod where their volume is. A claim that is still to be made binds it only when its
    class is known and waits for the pod; else nothing can be said of where it will be.
    """
    for template in workload.body["spec"].get("volumeClaimTemplates") or ():
        name = f"{template['metadata']['name']}-{pod.name}"
        key = f"{pod.namespace}/{name}"
        claims = objects.by_kind.setdefault("PersistentVolumeClaim", {})
        if key not in claims:
            storage = Volumes(objects).storage_class(template.get("spec") or {})
            if storage is None:
                objects.note(
                    f"a StorageClass of {workload.subject} is not in the input: its volumes may be in any zone"
                )
                continue
            if storage.get("volumeBindingMode") != WAITS:
                continue
            body = {"metadata": {"name": name, "namespace": pod.namespace}, "spec": template.get("spec") or {}}
            claims[key] = Found("PersistentVolumeClaim", body, workload.source)
        spec = pod.body["spec"]
        volume = {"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": name}}
        pod.body["spec"] = {**spec, "volumes": [*(spec.get("volumes") or ()), volume]}


def without_claims(pod: Body) -> Body:
    """The pod without the volumes that are answered for here."""
    volumes = pod["spec"].get("volumes")
    if not volumes:
        return pod
    kept = [v for v in volumes if not v.get("persistentVolumeClaim") and v.get("ephemeral") is None]
    return {**pod, "spec": {**pod["spec"], "volumes": kept}}


def _reachable_from(key: str, volume: Body) -> tuple[Requirements, ...]:
    """The node affinity of a volume; a disk of a machine that is gone shall not tie its pod to that name."""
    local = "local" in volume or "hostPath" in volume
    stated = ((volume.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    terms = []
    for term in stated:
        if term.get("matchExpressions") and not term.get("matchFields"):
            kept = [e for e in term["matchExpressions"] if not (local and e["key"] == labels.HOSTNAME)]
            terms.append(Requirements.from_terms(kept))
    if stated and not terms:
        raise UnplacedVolumeError(f"the node affinity of the volume of its claim {key} matches no node")
    return tuple(terms)


def _together(ways: list[tuple[Requirements, ...]]) -> tuple[Requirements, ...]:
    """Every choice of one alternative for each volume."""
    count = 1
    for terms in ways:
        count *= len(terms)
    if count > MOST_WAYS:
        raise UnplacedVolumeError(f"its volumes have {count} alternatives together, more than {MOST_WAYS}")
    combined: dict[Requirements, None] = {}
    for choice in product(*ways) if ways else ():
        whole = Requirements()
        for term in choice:
            whole = whole.with_(term)
        if not any(whole[key].contradicts() for key in whole):
            combined[whole] = None
    if ways and not combined:
        raise UnplacedVolumeError("no node can reach all of its volumes: they are in different zones")
    return tuple(combined)
