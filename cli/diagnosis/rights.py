"""The rights in Kubernetes that `deploy/rbac.yaml` gives the worker, because the file itself is not installed."""

from __future__ import annotations

from dataclasses import dataclass

_READ = ("get", "list", "watch")
_STATUS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource in all namespaces, or on the object ``name`` of it."""

    group: str
    resource: str
    """The plural, with its subresource after a slash."""
    verb: str
    name: str = ""

    def __str__(self) -> str:
        whole = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {whole}" + (f" {self.name}" if self.name else "")


def _rights(group: str, resources: str, *verbs: str, names: str = "") -> list[Right]:
    return [
        Right(group, resource, verb, name)
        for resource in resources.split()
        for verb in verbs
        for name in names.split() or [""]
    ]


RIGHTS = (
    *_rights("", "pods nodes namespaces limitranges persistentvolumes persistentvolumeclaims", *_READ),
    *_rights("", "replicationcontrollers services", *_READ),
    *_rights("apps", "daemonsets deployments replicasets statefulsets", *_READ),
    *_rights("storage.k8s.io", "storageclasses csinodes csidrivers volumeattachments", *_READ),
    *_rights("policy", "poddisruptionbudgets", *_READ),
    *_rights("scheduling.k8s.io", "priorityclasses", *_READ),
    *_rights("karpenter.sh", "nodepools", *_READ, "create", "patch", "update"),
    *_rights("karpenter.k8s.aws", "ec2nodeclasses", *_READ, "create", "patch", "update"),
    *_rights("karpenter.sh", "nodeclaims", *_READ, "create", "patch", "update", "delete"),
    *_rights("karpenter.sh", "nodepools/status nodeclaims/status", *_STATUS),
    *_rights("karpenter.k8s.aws", "ec2nodeclasses/status", *_STATUS),
    *_rights("karpenter.sh", "provisioners machines nodeoverlays", *_READ),
    *_rights("karpenter.k8s.aws", "awsnodetemplates", *_READ),
    *_rights("karpenter.sh", "provisioners/status machines/status", "get", "patch"),
    *_rights("karpenter.k8s.aws", "awsnodetemplates/status", "get", "patch"),
    *_rights("karpenter.sh", "nodeoverlays/status", "patch"),
    *_rights("tenon.sh", "disruptionfreezes nodeschedules", *_READ),
    *_rights("tenon.sh", "disruptionfreezes/status nodeschedules/status", "patch"),
    *_rights("tenon.sh", "noderepairpolicies", *_READ, "create", "patch"),
    *_rights("tenon.sh", "noderollouts", *_READ),
    *_rights("tenon.sh", "noderepairpolicies/status noderollouts/status", "patch"),
    *_rights("autoscaling.x-k8s.io", "capacitybuffers", *_READ),
    *_rights("autoscaling.x-k8s.io", "capacitybuffers/status", "patch"),
    *_rights("", "podtemplates", *_READ),
    *_rights("karpenter.sh", "nodepools/finalizers nodeclaims/finalizers provisioners/finalizers", "update"),
    *_rights("karpenter.k8s.aws", "awsnodetemplates/finalizers", "update"),
    *_rights("", "nodes", "patch", "update", "delete"),
    *_rights("", "pods/eviction pods/binding", "create"),
    *_rights("", "pods", "delete"),
    *_rights("", "events", "get", "list", "create", "patch"),
    *_rights("events.k8s.io", "events", "get", "create", "patch"),
    *_rights("coordination.k8s.io", "leases", "list", names="karpenter-leader-election"),
    *_rights("authorization.k8s.io", "subjectaccessreviews", "create"),
    *_rights(
        "apiextensions.k8s.io",
        "customresourcedefinitions customresourcedefinitions/status",
        "get",
        "patch",
        names="nodepools.karpenter.sh nodeclaims.karpenter.sh ec2nodeclasses.karpenter.k8s.aws",
    ),
)
"""The rules of the ClusterRole ``tenon``."""
