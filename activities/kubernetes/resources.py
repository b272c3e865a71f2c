"""The Kubernetes resources that Tenon uses, and their API paths."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of the Kubernetes API; ``group`` is empty for the core API."""

    group: str
    version: str
    plural: str
    namespaced: bool
    kind: str

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of objects of this resource."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The URL path of an object. Without ``name``, of the collection; without ``namespace``, in all namespaces."""
        parts = ["apis" if self.group else "api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)


PODS = Resource("", "v1", "pods", True, "Pod")
NODES = Resource("", "v1", "nodes", False, "Node")
NAMESPACES = Resource("", "v1", "namespaces", False, "Namespace")
EVENTS = Resource("", "v1", "events", True, "Event")
CONFIGMAPS = Resource("", "v1", "configmaps", True, "ConfigMap")
SECRETS = Resource("", "v1", "secrets", True, "Secret")
PVCS = Resource("", "v1", "persistentvolumeclaims", True, "PersistentVolumeClaim")
PVS = Resource("", "v1", "persistentvolumes", False, "PersistentVolume")
LIMITRANGES = Resource("", "v1", "limitranges", True, "LimitRange")
DAEMONSETS = Resource("apps", "v1", "daemonsets", True, "DaemonSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", True, "Deployment")
CONTROLLERREVISIONS = Resource("apps", "v1", "controllerrevisions", True, "ControllerRevision")
REPLICASETS = Resource("apps", "v1", "replicasets", True, "ReplicaSet")
STATEFULSETS = Resource("apps", "v1", "statefulsets", True, "StatefulSet")
REPLICATIONCONTROLLERS = Resource("", "v1", "replicationcontrollers", True, "ReplicationController")
SERVICES = Resource("", "v1", "services", True, "Service")
PODTEMPLATES = Resource("", "v1", "podtemplates", True, "PodTemplate")
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", False, "SelfSubjectAccessReview")
SUBJECT_ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", False, "SubjectAccessReview")
PDBS = Resource("policy", "v1", "poddisruptionbudgets", True, "PodDisruptionBudget")
LEASES = Resource("coordination.k8s.io", "v1", "leases", True, "Lease")
STORAGECLASSES = Resource("storage.k8s.io", "v1", "storageclasses", False, "StorageClass")
CSIDRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", False, "CSIDriver")
CSINODES = Resource("storage.k8s.io", "v1", "csinodes", False, "CSINode")
VOLUMEATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", False, "VolumeAttachment")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, "CustomResourceDefinition")
NODEPOOLS = Resource("karpenter.sh", "v1", "nodepools", False, "NodePool")
NODECLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", False, "NodeClaim")
NODEOVERLAYS = Resource("karpenter.sh", "v1alpha1", "nodeoverlays", False, "NodeOverlay")
DISRUPTIONFREEZES = Resource("tenon.sh", "v1alpha1", "disruptionfreezes", False, "DisruptionFreeze")
NODEREPAIRPOLICIES = Resource("tenon.sh", "v1alpha1", "noderepairpolicies", False, "NodeRepairPolicy")
NODEROLLOUTS = Resource("tenon.sh", "v1alpha1", "noderollouts", False, "NodeRollout")
NODESCHEDULES = Resource("tenon.sh", "v1alpha1", "nodeschedules", False, "NodeSchedule")
CAPACITYBUFFERS = Resource("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", True, "CapacityBuffer")
VPAS = Resource("autoscaling.k8s.io", "v1", "verticalpodautoscalers", True, "VerticalPodAutoscaler")
PROVISIONERS = Resource("karpenter.sh", "v1alpha5", "provisioners", False, "Provisioner")
MACHINES = Resource("karpenter.sh", "v1alpha5", "machines", False, "Machine")
AWSNODETEMPLATES = Resource("karpenter.k8s.aws", "v1alpha1", "awsnodetemplates", False, "AWSNodeTemplate")
EC2NODECLASSES = Resource("karpenter.k8s.aws", "v1", "ec2nodeclasses", False, "EC2NodeClass")
