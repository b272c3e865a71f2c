"""EC2NodeClasses that are accepted or refused."""

# fmt: off - a table

from __future__ import annotations

from typing import Any

from tenon.apis import labels
from tests.tenon.apis.case import REMOVED, RUNTIME, Case

SUBNETS, GROUPS, AMIS = "subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"
DEVICES, CARDS, RESERVATIONS = "blockDeviceMappings", "networkInterfaces", "capacityReservationSelectorTerms"


def card(card_index: int, device_index: int, kind: str = "interface") -> dict[str, Any]:
    return {"networkCardIndex": card_index, "deviceIndex": device_index, "interfaceType": kind}


CLASS_CASES = [
    Case("the least", "class", {}),
    Case("no subnets", "class", {SUBNETS: []}, SUBNETS),
    Case("subnet by id", "class", {SUBNETS: [{"id": "subnet-0a1"}, {"tags": {"a": "*"}}]}),
    Case("subnet by id and tags", "class", {SUBNETS: [{"id": "subnet-0a1", "tags": {"a": "b"}}]}, "either tags or id"),
    Case("subnet by nothing", "class", {SUBNETS: [{}]}, "either tags or id"),
    Case("subnet by no tags", "class", {SUBNETS: [{"tags": {}}]}, "either tags or id"),
    Case("subnet by empty tag", "class", {SUBNETS: [{"tags": {"a": ""}}]}, "empty key or value"),
    Case("subnet id malformed", "class", {SUBNETS: [{"id": "vpc-1"}]}, "id"),
    Case("31 subnets", "class", {SUBNETS: [{"id": f"subnet-{i}"} for i in range(31)]}, SUBNETS),
    Case("group by name", "class", {GROUPS: [{"name": "nodes"}, {"id": "sg-1"}]}),
    Case("group by name and id", "class", {GROUPS: [{"name": "nodes", "id": "sg-1"}]}, "exactly one of"),
    Case("group by name and tags", "class", {GROUPS: [{"name": "nodes", "tags": {"a": "b"}}]}, "exactly one of"),
    Case(
        "reservations",
        "class",
        {
            RESERVATIONS: [
                {"id": "cr-1"},
                {"tags": {"a": "b"}, "ownerID": "123456789012", "instanceMatchCriteria": "targeted"},
            ]
        },
    ),
    Case(
        "reservation by id and owner", "class", {RESERVATIONS: [{"id": "cr-1", "ownerID": "123456789012"}]}, "id alone"
    ),
    Case("reservation owner malformed", "class", {RESERVATIONS: [{"ownerID": "me"}]}, "ownerID"),
    Case("placement group", "class", {"placementGroupSelector": {"name": "near"}}),
    Case("placement group twice", "class", {"placementGroupSelector": {"name": "near", "id": "pg-1"}}, "not both"),
    Case("alias unknown", "class", {AMIS: [{"alias": "ubuntu@latest"}]}, "alias"),
    Case("alias without version", "class", {AMIS: [{"alias": "al2023"}]}, "alias"),
    Case("alias too long", "class", {AMIS: [{"alias": "al2023@" + "1" * 24}]}, "alias"),
    Case("alias pinned", "class", {AMIS: [{"alias": "bottlerocket@v1.20.4"}]}),
    Case("windows latest", "class", {AMIS: [{"alias": "windows2022@latest"}]}),
    Case("windows pinned", "class", {AMIS: [{"alias": "windows2022@v1"}]}, "only the version latest"),
    Case(
        "alias and another term",
        "class",
        {AMIS: [{"alias": "al2@latest"}, {"id": "ami-1"}], "amiFamily": "AL2"},
        "the only AMI term",
    ),
    Case("alias and id", "class", {AMIS: [{"alias": "al2@latest", "id": "ami-1"}]}, "exactly one of"),
    Case("id without family", "class", {AMIS: [{"id": "ami-1"}]}, "amiFamily is needed"),
    Case("id with family", "class", {AMIS: [{"id": "ami-1"}, {"ssmParameter": "/a"}], "amiFamily": "AL2023"}),
    Case(
        "tags, name and owner",
        "class",
        {AMIS: [{"tags": {"a": "b"}, "name": "n*", "owner": "self"}], "amiFamily": "Custom"},
    ),
    Case("owner alone", "class", {AMIS: [{"owner": "self"}], "amiFamily": "Custom"}, "needs"),
    Case("name and id", "class", {AMIS: [{"name": "n", "id": "ami-1"}], "amiFamily": "AL2"}, "exactly one of"),
    Case("family unlike alias", "class", {"amiFamily": "AL2"}, "the family of the alias"),
    Case("family of alias", "class", {"amiFamily": "AL2023"}),
    Case("family Custom with alias", "class", {"amiFamily": "Custom"}),
    Case("family unknown", "class", {"amiFamily": "Ubuntu"}, "amiFamily"),
    Case("instance profile", "class", {"role": REMOVED, "instanceProfile": "mine"}),
    Case("role and profile", "class", {"instanceProfile": "mine"}, "exactly one of role"),
    Case("neither role nor profile", "class", {"role": REMOVED}, "exactly one of role"),
    Case("role empty", "class", {"role": ""}, "role"),
    Case("tags", "class", {"tags": {"team": "a", "empty": ""}}),
    *[
        Case(f"tag {tag}", "class", {"tags": {tag: "x"}}, "tags must not set")
        for tag in (
            "eks:eks-cluster-name",
            "kubernetes.io/cluster/mine",
            labels.NODEPOOL,
            "karpenter.sh/nodeclaim",
            labels.EC2NODECLASS,
            "tenon.sh/client-token",
        )
    ],
    Case("tag without key", "class", {"tags": {"": "x"}}, "empty key"),
    Case(
        "kubelet",
        "class",
        {
            "kubelet": {
                "maxPods": 50,
                "clusterDNS": ["10.96.0.10"],
                "systemReserved": {"cpu": "100m", "memory": "1000"},
                "evictionHard": {"memory.available": "5%"},
                "evictionSoft": {"nodefs.available": "10Gi"},
                "evictionSoftGracePeriod": {"nodefs.available": "1m30.5s"},
                "imageGCHighThresholdPercent": 80,
                "imageGCLowThresholdPercent": 70,
                "cpuCFSQuota": False,
                "shutdownGracePeriod": "30s",
            }
        },
    ),
    Case(
        "kubelet extra on Bottlerocket",
        "class",
        {"kubelet": {"shutdownGracePeriod": "30s"}, AMIS: [{"alias": "bottlerocket@latest"}]},
        "AL2023",
        RUNTIME,
    ),
    Case(
        "kubelet expressions",
        "class",
        {
            "kubelet": {
                "maxPods": "min(110, (default_enis - 1) * (ips_per_eni - 1) + 2)",
                "kubeReserved": {"cpu": "max(60, vcpus * 30)", "memory": "11 * max_pods + 255", "pid": "1000"},
                "systemReserved": {"ephemeral-storage": "instance_type.startsWith('m5') ? 3 : 2"},
            }
        },
    ),
    Case("kubelet pods of one variable", "class", {"kubelet": {"maxPods": "max_pods"}}),
    Case("kubelet pods over lines", "class", {"kubelet": {"maxPods": "vcpus > 4\n? 110\n: 50\n"}}),
    Case("kubelet pods in quotes", "class", {"kubelet": {"maxPods": "110"}}, "neither a whole number"),
    Case("kubelet pods a word", "class", {"kubelet": {"maxPods": "many"}}, "neither a whole number"),
    Case("kubelet pods below none", "class", {"kubelet": {"maxPods": "-1 * vcpus"}}, "neither a whole number"),
    Case("kubelet reserves a slip", "class", {"kubelet": {"kubeReserved": {"memory": "100mi"}}}, "100mi"),
    Case("kubelet reserves a gap", "class", {"kubelet": {"kubeReserved": {"memory": "1 Gi"}}}, "1 Gi"),
    Case("kubelet expression of full length", "class", {"kubelet": {"maxPods": f"vcpus{' ' * 1015} * 1"}}),
    Case(
        "kubelet expression too long",
        "class",
        {"kubelet": {"maxPods": f"vcpus{' ' * 1016} * 1"}},
        "neither a whole number",
    ),
    Case(
        "kubelet expression unreadable",
        "class",
        {"kubelet": {"systemReserved": {"cpu": "max(60, cores * 30)"}}},
        "undeclared reference to 'cores'",
        RUNTIME,
    ),
    Case("kubelet taints", "class", {"kubelet": {"registerWithTaints": []}}, "NodePool"),
    Case("kubelet reserves disks", "class", {"kubelet": {"kubeReserved": {"disk": "1"}}}, "takes only"),
    Case("kubelet reserves less than none", "class", {"kubelet": {"systemReserved": {"cpu": "-1"}}}, "negative"),
    Case("kubelet signal unknown", "class", {"kubelet": {"evictionHard": {"moon.full": "5%"}}}, "takes only"),
    Case(
        "kubelet threshold malformed", "class", {"kubelet": {"evictionHard": {"pid.available": "101%"}}}, "evictionHard"
    ),
    Case("kubelet soft without grace", "class", {"kubelet": {"evictionSoft": {"pid.available": "5%"}}}, "same signals"),
    Case(
        "kubelet grace without soft",
        "class",
        {"kubelet": {"evictionSoftGracePeriod": {"pid.available": "5m"}}},
        "same signals",
    ),
    Case(
        "kubelet GC upside down",
        "class",
        {"kubelet": {"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50}},
        "must be above",
    ),
    Case(
        "podsPerCore on Bottlerocket",
        "class",
        {"kubelet": {"podsPerCore": 2}, AMIS: [{"alias": "bottlerocket@latest"}]},
        "podsPerCore",
    ),
    Case(
        "volumes",
        "class",
        {
            DEVICES: [
                {
                    "deviceName": "/dev/xvda",
                    "rootVolume": True,
                    "ebs": {"volumeSize": "100Gi", "volumeType": "gp3", "iops": 3000},
                },
                {"deviceName": "/dev/xvdb", "ebs": {"snapshotID": "snap-1", "volumeInitializationRate": 100}},
            ]
        },
    ),
    Case("two root volumes", "class", {DEVICES: [{"rootVolume": True}, {"rootVolume": True}]}, "root volume"),
    Case("volume of no size", "class", {DEVICES: [{"ebs": {"volumeType": "gp3"}}]}, "snapshotID or volumeSize"),
    Case("volume of bytes", "class", {DEVICES: [{"ebs": {"volumeSize": "100"}}]}, "volumeSize"),
    Case(
        "volume rate alone",
        "class",
        {DEVICES: [{"ebs": {"volumeSize": "1Gi", "volumeInitializationRate": 100}}]},
        "needs snapshotID",
    ),
    Case(
        "volume rate 99",
        "class",
        {DEVICES: [{"ebs": {"snapshotID": "s", "volumeInitializationRate": 99}}]},
        "volumeInitializationRate",
    ),
    Case(
        "volume type unknown", "class", {DEVICES: [{"ebs": {"volumeSize": "1Gi", "volumeType": "gp9"}}]}, "volumeType"
    ),
    Case("51 volumes", "class", {DEVICES: [{"deviceName": f"/dev/{i}"} for i in range(51)]}, DEVICES),
    Case("RAID0", "class", {"instanceStorePolicy": "RAID0"}),
    Case("RAID1", "class", {"instanceStorePolicy": "RAID1"}, "instanceStorePolicy"),
    Case("interfaces", "class", {CARDS: [card(0, 0), card(0, 1, "efa-only"), card(1, 1, "efa-only")]}),
    Case("no primary interface", "class", {CARDS: [card(0, 1)]}, "primary"),
    Case("primary is EFA", "class", {CARDS: [card(0, 0, "efa-only")]}, "primary"),
    Case("interface twice", "class", {CARDS: [card(0, 0), card(0, 0)]}, "twice"),
    Case(
        "two EFA on a card",
        "class",
        {CARDS: [card(0, 0), card(1, 0, "efa-only"), card(1, 1, "efa-only")]},
        "two efa-only",
    ),
    Case("metadata", "class", {"metadataOptions": {"httpTokens": "optional", "httpPutResponseHopLimit": 64}}),
    Case("hop limit 65", "class", {"metadataOptions": {"httpPutResponseHopLimit": 65}}, "httpPutResponseHopLimit"),
    Case("http tokens unknown", "class", {"metadataOptions": {"httpTokens": "maybe"}}, "httpTokens"),
    Case("tracking", "class", {"connectionTracking": {"tcpEstablishedTimeout": 432000, "udpTimeout": 30}}),
    Case("tracking nothing", "class", {"connectionTracking": {}}, "at least one timeout"),
    Case("tracking too long", "class", {"connectionTracking": {"udpTimeout": 61}}, "udpTimeout"),
    Case("prefixes negative", "class", {"ipPrefixCount": -1}, "ipPrefixCount"),
    Case("a boolean as text", "class", {"detailedMonitoring": "true"}, "detailedMonitoring"),
    Case("nested virtualization", "class", {"cpuOptions": {"nestedVirtualization": "enabled"}}),
    Case("enclaves", "class", {"enclaveOptions": {"enabled": True}}),
    Case("enclaves neither on nor off", "class", {"enclaveOptions": {}}, "enabled"),
]
