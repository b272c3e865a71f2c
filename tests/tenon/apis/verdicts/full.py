"""Good manifests that together have every field of every kind, from which bad ones are made by changing one value."""

# fmt: off

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenon.apis.base import ApiModel
from tenon.apis.capacitybuffer import CapacityBuffer
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.legacy.kinds import v1alpha1, v1alpha5, v1beta1, v1beta1_ec2nodeclass
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.apis.noderepairpolicy import NodeRepairPolicy
from tenon.apis.noderollout import NodeRollout
from tenon.apis.nodeschedule import NodeSchedule

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Full:
    """A good manifest, and where its kind is."""

    title: str
    model: type[ApiModel]
    plural: str
    spec: Manifest
    namespace: str = ""

    @property
    def api_version(self) -> str:
        return str(self.model.model_fields["api_version"].default)

    @property
    def manifest(self) -> Manifest:
        metadata = {"name": "case", "labels": {"team": "a"}, "annotations": {"example.com/why": "To see"}}
        return {
            "apiVersion": self.api_version,
            "kind": self.model.__name__,
            "metadata": metadata | ({"namespace": self.namespace} if self.namespace else {}),
            "spec": self.spec,
        }


TAINTS = {
    "taints": [{"key": "example.com/own", "value": "yes", "effect": "NoSchedule",
                "timeAdded": "2026-01-31T12:00:00Z"}],
    "startupTaints": [{"key": "example.com/cni", "value": "yes", "effect": "NoExecute",
                       "timeAdded": "2026-01-31T12:00:00.5+02:00"}],
}
REF = {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}
REQUIREMENTS = [
    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge"], "minValues": 2},
    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gte", "values": ["4"]},
    {"key": "example.com/gpu", "operator": "DoesNotExist"},
]
OLD_REQUIREMENTS = [
    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge"]},
    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["4"]},
]
BUDGETS = [
    {"nodes": "20%", "reasons": ["Empty", "Drifted"]},
    {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h30m"},
]
KUBELET: Manifest = {
    "clusterDNS": ["10.96.0.10"],
    "maxPods": 50,
    "podsPerCore": 8,
    "systemReserved": {"cpu": "100m", "memory": "1Gi"},
    "kubeReserved": {"ephemeral-storage": "1Gi", "pid": "100"},
    "evictionHard": {"memory.available": "5%"},
    "evictionSoft": {"nodefs.available": "10Gi"},
    "evictionSoftGracePeriod": {"nodefs.available": "1m30s"},
    "evictionMaxPodGracePeriod": 60,
    "imageGCHighThresholdPercent": 80,
    "imageGCLowThresholdPercent": 70,
    "cpuCFSQuota": False,
}
OLD_KUBELET = KUBELET | {"containerRuntime": "containerd", "kubeReserved": {"ephemeral-storage": "1Gi", "pid": 100}}
DISK = {
    "deleteOnTermination": True, "encrypted": True, "iops": 3000, "kmsKeyID": "alias/a", "snapshotID": "snap-1",
    "throughput": 125, "volumeSize": "100Gi", "volumeType": "gp3",
}
DISKS = [{"deviceName": "/dev/xvda", "rootVolume": True, "ebs": DISK | {"volumeInitializationRate": 200}}]
IMDS = {
    "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 2, "httpTokens": "required",
}
FOUND_BY = {
    "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "mine"}}, {"id": "subnet-0a1"}],
    "securityGroupSelectorTerms": [{"tags": {"a": "*"}}, {"id": "sg-0a1"}, {"name": "nodes"}],
}

FULL = [
    Full("a pool", NodePool, "nodepools", {
        "template": {
            "metadata": {"labels": {"team": "a", "karpenter.sh/capacity-type": "spot"}, "annotations": {"a/b": "c"}},
            "spec": {**TAINTS, **REF, "requirements": REQUIREMENTS, "expireAfter": "720h",
                     "terminationGracePeriod": "24h"},
        },
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": BUDGETS},
        "limits": {"cpu": 1000, "memory": "1000Gi", "nodes": "10"},
        "weight": 10,
    }),
    Full("a static pool", NodePool, "nodepools", {
        "template": {"spec": {**REF, "requirements": []}}, "replicas": 3, "limits": {"nodes": 5},
    }),
    Full("a claim", NodeClaim, "nodeclaims", {
        **TAINTS, **REF, "requirements": REQUIREMENTS, "resources": {"requests": {"cpu": "1500m", "pods": 4}},
        "expireAfter": "Never", "terminationGracePeriod": "1h",
    }),
    Full("a class", EC2NodeClass, "ec2nodeclasses", {
        **FOUND_BY,
        "capacityReservationSelectorTerms": [
            {"id": "cr-0a1"},
            {"tags": {"a": "b"}, "ownerID": "123456789012", "instanceMatchCriteria": "targeted"},
        ],
        "placementGroupSelector": {"name": "near"},
        "associatePublicIPAddress": False,
        "ipPrefixCount": 1,
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "amiFamily": "AL2023",
        "userData": "#!/bin/sh",
        "role": "nodes",
        "tags": {"team": "a"},
        "kubelet": KUBELET,
        "blockDeviceMappings": DISKS,
        "instanceStorePolicy": "RAID0",
        "networkInterfaces": [
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
        ],
        "detailedMonitoring": True,
        "metadataOptions": IMDS,
        "connectionTracking": {"tcpEstablishedTimeout": 600, "udpStreamTimeout": 90, "udpTimeout": 40},
        "context": "c",
        "cpuOptions": {"nestedVirtualization": "enabled"},
        "enclaveOptions": {"enabled": True},
    }),
    Full("a class of images", EC2NodeClass, "ec2nodeclasses", {
        **FOUND_BY,
        "placementGroupSelector": {"id": "pg-0a1"},
        "amiSelectorTerms": [
            {"id": "ami-0a1"}, {"ssmParameter": "/a"}, {"tags": {"a": "b"}, "name": "n*", "owner": "self"},
        ],
        "amiFamily": "Custom",
        "instanceProfile": "mine",
    }),
    Full("an overlay of prices", NodeOverlay, "nodeoverlays", {
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["8"]},
        ],
        "price": "0.096", "weight": 10,
    }),
    Full("an overlay of capacity", NodeOverlay, "nodeoverlays", {
        "requirements": [], "priceAdjustment": "-10%", "capacity": {"example.com/x": 5, "hugepages-2Mi": "100Mi"},
    }),
    Full("a policy of a ladder", NodeRepairPolicy, "noderepairpolicies", {
        "nodePoolSelector": {
            "matchLabels": {"team": "a"},
            "matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes"]}],
        },
        "weight": 10,
        "faults": [
            {
                "conditionType": "KernelDeadlock", "conditionStatus": "True", "reasonRegex": "Lockup",
                "tolerationDuration": "5m", "terminationGracePeriod": "10m", "priority": 5,
                "steps": [
                    {"action": "Wait", "patience": "5m"},
                    {"action": "RebootNode", "patience": "1m", "limit": {"times": 2, "within": "24h"}},
                    {"action": "ReplaceNode"},
                ],
            },
        ],
        "budgets": [{"nodes": "20%", "schedule": "0 9 * * mon-fri", "duration": "8h30m"}],
    }),
    Full("a rollout", NodeRollout, "noderollouts", {
        "nodePoolSelector": {
            "matchLabels": {"team": "a"},
            "matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes"]}],
        },
        "strategy": {"waves": ["1", "10%", "100%"], "order": "Zone", "soak": "10m", "maxUnavailable": "10%"},
        "gates": {
            "initializedWithin": "15m", "podsReadyWithin": "10m", "restarts": "Ignore", "nodeConditions": "Ignore",
            "prometheus": [
                {"name": "errors", "address": "http://prometheus.monitoring:9090", "query": "sum(errors)", "min": "-1",
                 "max": "0.5"},
            ],
            "approval": [2, 3],
        },
        "onFailure": "Rollback",
        "windows": [{"schedule": "0 9 * * mon-fri", "duration": "8h30m", "timezone": "Europe/Berlin"}],
    }),
    Full("a freeze of some nights", DisruptionFreeze, "disruptionfreezes", {
        "nodePools": ["default"],
        "nodePoolSelector": {
            "matchLabels": {"team": "a"},
            "matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes"]}],
        },
        "startTime": "2026-12-20T00:00:00Z", "endTime": "2027-01-04T00:00:00Z",
        "windows": [{"schedule": "0 22 * * *", "duration": "8h", "timezone": "Europe/Berlin"}],
        "calendar": {"url": "https://example.com/a.ics?b=c", "timezone": "Europe/Berlin", "refreshInterval": "30m"},
        "maxExpiryDelay": "24h", "reason": "holidays", "requestedBy": "anna",
    }),
    Full("a schedule of working hours", NodeSchedule, "nodeschedules", {
        "timeZone": "Europe/Berlin", "nodePools": ["default"], "suspend": True, "bootTime": "4m",
        "entries": [
            {"name": "nights", "from": "19:00", "to": "09:00", "days": ["Mon", "Fri"], "closed": True},
            {"cron": "0 9 * * mon-fri", "duration": "2h", "floor": {"nodes": 2, "spare": {"cpu": "4"}}, "replicas": 3,
             "limits": {"cpu": "100"}, "headroom": [{"namespace": "shop", "name": "web", "replicas": 5}]},
        ],
    }),
    Full("a buffer of pods", CapacityBuffer, "capacitybuffers", {
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity", "podTemplateRef": {"name": "small"}, "replicas": 3,
        "limits": {"cpu": "4", "memory": "8Gi"},
    }, "default"),
    Full("a buffer of a workload", CapacityBuffer, "capacitybuffers", {
        "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, "percentage": 10,
    }, "default"),
    Full("an old pool", v1beta1.NodePool, "nodepools", {
        "template": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"a/b": "c"}},
            "spec": {
                **TAINTS, "requirements": [OLD_REQUIREMENTS[0] | {"minValues": 1}, OLD_REQUIREMENTS[1]],
                "kubelet": OLD_KUBELET, "resources": {},
                "nodeClassRef": {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "default"},
            },
        },
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "expireAfter": "Never",
                       "budgets": [{"nodes": "20%"}, BUDGETS[1]]},
        "limits": {"cpu": 1000}, "weight": 10,
    }),
    Full("an old claim", v1beta1.NodeClaim, "nodeclaims", {
        **TAINTS, "requirements": [OLD_REQUIREMENTS[0] | {"minValues": 1}], "kubelet": OLD_KUBELET,
        "nodeClassRef": {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "default"},
        "resources": {"requests": {"cpu": 1}},
    }),
    Full("an old class of a profile", v1beta1_ec2nodeclass.EC2NodeClass, "ec2nodeclasses", {
        **FOUND_BY, "amiFamily": "AL2", "instanceProfile": "mine",
    }),
    Full("a template of a launch template", v1alpha1.AWSNodeTemplate, "awsnodetemplates", {
        "launchTemplate": "mine", "subnetSelector": {"a": "*"},
    }),
    Full("an old class", v1beta1_ec2nodeclass.EC2NodeClass, "ec2nodeclasses", {
        **FOUND_BY, "associatePublicIPAddress": True,
        "amiSelectorTerms": [{"id": "ami-0a1"}, {"tags": {"a": "b"}, "name": "n*", "owner": "self"}],
        "amiFamily": "Ubuntu", "userData": "#!/bin/sh", "role": "nodes", "tags": {"team": "a"},
        "blockDeviceMappings": DISKS, "instanceStorePolicy": "RAID0", "detailedMonitoring": True,
        "metadataOptions": IMDS, "context": "c",
    }),
    Full("a provisioner", v1alpha5.Provisioner, "provisioners", {
        **TAINTS, "requirements": OLD_REQUIREMENTS, "annotations": {"a/b": "c"}, "labels": {"team": "a"},
        "kubeletConfiguration": OLD_KUBELET,
        "providerRef": {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "name": "default"},
        "ttlSecondsAfterEmpty": 30, "ttlSecondsUntilExpired": 2592000, "consolidation": {"enabled": False},
        "limits": {"resources": {"cpu": "1000"}}, "weight": 10,
    }),
    Full("a provisioner with its provider", v1alpha5.Provisioner, "provisioners", {
        "provider": {"subnetSelector": {"a": "b"}}, "consolidation": {"enabled": True},
    }),
    Full("a machine", v1alpha5.Machine, "machines", {
        **TAINTS, "requirements": OLD_REQUIREMENTS, "resources": {"requests": {"cpu": 1}}, "kubelet": OLD_KUBELET,
        "machineTemplateRef": {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "name": "d"},
    }),
    Full("a template", v1alpha1.AWSNodeTemplate, "awsnodetemplates", {
        "userData": "#!/bin/sh", "amiFamily": "Bottlerocket", "amiSelector": {"aws::ids": "ami-1,ami-2"},
        "subnetSelector": {"a": "*"}, "securityGroupSelector": {"a": "b", "c": "d"}, "instanceProfile": "mine",
        "metadataOptions": IMDS, "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": DISK}],
        "tags": {"team": "a"}, "context": "c", "detailedMonitoring": True,
    }),
]
