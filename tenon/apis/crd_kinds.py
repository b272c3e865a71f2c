"""Every kind that Tenon defines in a cluster: its versions, its names, and the columns that `kubectl get` shows.

Each version has the columns that users know from the Karpenter release of that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.capacitybuffer import CapacityBuffer
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.kinds import BUFFER_GROUP
from tenon.apis.legacy.kinds import v1alpha1, v1alpha5, v1beta1, v1beta1_ec2nodeclass
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.apis.noderepairpolicy import NodeRepairPolicy
from tenon.apis.noderollout import NodeRollout
from tenon.apis.nodeschedule import NodeSchedule


@dataclass(frozen=True)
class PrinterColumn:
    """A column of `kubectl get`. A wide column appears only with ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True)
class Version:
    name: str
    model: type[ApiModel]
    columns: Sequence[PrinterColumn]
    scale: dict[str, str] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class CustomResource:
    """The parts of a CustomResourceDefinition other than its schemas. The first version is the storage version."""

    group: str
    plural: str
    versions: Sequence[Version]
    short_names: Sequence[str] = ()
    category: str = "karpenter"
    scope: str = "Cluster"

    @property
    def kind(self) -> str:
        """The kind. The model of every version has this name."""
        return self.versions[0].model.__name__

    @property
    def name(self) -> str:
        """The name of the CustomResourceDefinition, such as ``nodepools.karpenter.sh``."""
        return f"{self.plural}.{self.group}"

    @property
    def file_name(self) -> str:
        """The file name of the manifest."""
        return f"{self.group}_{self.plural}.yaml"


def _label(name: str) -> str:
    return ".metadata.labels." + name.replace(".", r"\.")


def _annotation(name: str) -> str:
    return ".metadata.annotations." + name.replace(".", r"\.")


def _condition(type_: str, field_: str = "status") -> str:
    return f'.status.conditions[?(@.type=="{type_}")].{field_}'


_READY = PrinterColumn("Ready", _condition("Ready"))
_AGE = PrinterColumn("Age", ".metadata.creationTimestamp", "date")
_WEIGHT = PrinterColumn("Weight", ".spec.weight", "integer", wide=True)
_ROLE = PrinterColumn("Role", ".spec.role", wide=True)
_TYPE = PrinterColumn("Type", _label(labels.INSTANCE_TYPE))
_ZONE = PrinterColumn("Zone", _label(labels.ZONE))
_NODE = PrinterColumn("Node", ".status.nodeName")
_POOL = PrinterColumn("NodePool", _label(labels.NODEPOOL), wide=True)
_CLASS = PrinterColumn("NodeClass", ".spec.nodeClassRef.name", wide=True)
_CLASS_OF_POOL = PrinterColumn("NodeClass", ".spec.template.spec.nodeClassRef.name")
_WIDE_CAPACITY = PrinterColumn("Capacity", _label(labels.CAPACITY_TYPE), wide=True)

RESOURCES = (
    CustomResource(
        labels.GROUP,
        "nodepools",
        (
            Version(
                "v1",
                NodePool,
                (
                    _CLASS_OF_POOL,
                    PrinterColumn("Nodes", ".status.nodes", "integer"),
                    _READY,
                    _AGE,
                    _WEIGHT,
                    PrinterColumn("CPU", ".status.resources.cpu", wide=True),
                    PrinterColumn("Memory", ".status.resources.memory", wide=True),
                    PrinterColumn("Limit", ".spec.limits.cpu", wide=True),
                    PrinterColumn("Capacity", _condition("CapacityAvailable"), wide=True),
                    PrinterColumn("Price", ".status.pricePerHour", wide=True),
                ),
                scale={"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
            ),
            Version("v1beta1", v1beta1.NodePool, (_CLASS_OF_POOL, _WEIGHT)),
        ),
    ),
    CustomResource(
        labels.GROUP,
        "nodeclaims",
        (
            Version(
                "v1",
                NodeClaim,
                (
                    _TYPE,
                    PrinterColumn("Capacity", _label(labels.CAPACITY_TYPE)),
                    _ZONE,
                    _NODE,
                    _READY,
                    _AGE,
                    PrinterColumn("ImageID", ".status.imageID", wide=True),
                    PrinterColumn("ID", ".status.providerID", wide=True),
                    _POOL,
                    _CLASS,
                    PrinterColumn("Drifted", _condition("Drifted"), wide=True),
                    PrinterColumn("Price", _annotation(labels.LAUNCH_PRICE), wide=True),
                    PrinterColumn("Kept", _annotation(labels.KEEP_UNTIL), wide=True),
                    PrinterColumn("Leaves", _condition("DisruptionReason", "reason"), wide=True),
                    PrinterColumn("Drain", _condition("Drained", "message"), wide=True),
                ),
            ),
            Version("v1beta1", v1beta1.NodeClaim, (_TYPE, _ZONE, _NODE, _READY, _AGE, _WIDE_CAPACITY, _POOL, _CLASS)),
        ),
    ),
    CustomResource(
        labels.AWS_GROUP,
        "ec2nodeclasses",
        (
            Version("v1", EC2NodeClass, (_READY, _AGE, _ROLE)),
            Version("v1beta1", v1beta1_ec2nodeclass.EC2NodeClass, (_READY, _AGE, _ROLE)),
        ),
        short_names=("ec2nc", "ec2ncs"),
    ),
    CustomResource(
        labels.GROUP,
        "nodeoverlays",
        (Version("v1alpha1", NodeOverlay, (_READY, _AGE, _WEIGHT)),),
        short_names=("overlays",),
    ),
    CustomResource(
        labels.TENON_GROUP,
        "noderepairpolicies",
        (
            Version(
                "v1alpha1",
                NodeRepairPolicy,
                (
                    PrinterColumn("NodePools", ".status.nodePools", "integer"),
                    PrinterColumn("Matching", ".status.matchingNodes", "integer"),
                    _READY,
                    _AGE,
                    _WEIGHT,
                    PrinterColumn("Conditions", ".spec.faults[*].conditionType", wide=True),
                ),
            ),
        ),
        short_names=("nrp",),
    ),
    CustomResource(
        labels.TENON_GROUP,
        "noderollouts",
        (
            Version(
                "v1alpha1",
                NodeRollout,
                (
                    PrinterColumn("NodePools", ".status.nodePools[*].name"),
                    PrinterColumn("Phase", ".status.nodePools[*].phase"),
                    PrinterColumn("Wave", ".status.nodePools[*].wave"),
                    _READY,
                    _AGE,
                    PrinterColumn("OnFailure", ".spec.onFailure", wide=True),
                ),
            ),
        ),
        short_names=("nro",),
    ),
    CustomResource(
        labels.TENON_GROUP,
        "disruptionfreezes",
        (
            Version(
                "v1alpha1",
                DisruptionFreeze,
                (
                    PrinterColumn("Active", ".status.active", "boolean"),
                    PrinterColumn("Changes", ".status.nextChange"),
                    PrinterColumn("NodePools", ".status.nodePools", "integer"),
                    PrinterColumn("Reason", ".spec.reason"),
                    _AGE,
                    PrinterColumn("By", ".spec.requestedBy", wide=True),
                ),
            ),
        ),
        short_names=("freeze", "freezes"),
    ),
    CustomResource(
        labels.TENON_GROUP,
        "nodeschedules",
        (
            Version(
                "v1alpha1",
                NodeSchedule,
                (
                    PrinterColumn("Zone", ".spec.timeZone"),
                    PrinterColumn("NodePools", ".spec.nodePools"),
                    PrinterColumn("Holds", ".status.nodePools[*].holds"),
                    PrinterColumn("Changes", ".status.nextChange"),
                    PrinterColumn("Suspended", ".spec.suspend", "boolean", wide=True),
                    PrinterColumn("Applied", '.status.conditions[?(@.type=="Applied")].status', wide=True),
                    _AGE,
                ),
            ),
        ),
        short_names=("nsched",),
    ),
    CustomResource(
        BUFFER_GROUP,
        "capacitybuffers",
        (
            Version(
                "v1beta1",
                CapacityBuffer,
                (
                    PrinterColumn("Strategy", ".spec.provisioningStrategy"),
                    PrinterColumn("PodTemplate", ".status.podTemplateRef.name"),
                    PrinterColumn("Replicas", ".status.replicas", "integer"),
                    PrinterColumn("ConditionsType", ".status.conditions[*].type"),
                    PrinterColumn("ConditionsStatus", ".status.conditions[*].status"),
                    PrinterColumn("ConditionsReason", ".status.conditions[*].reason"),
                    _AGE,
                ),
            ),
        ),
        short_names=("cb",),
        category="autoscaling",
        scope="Namespaced",
    ),
    CustomResource(
        labels.GROUP,
        "provisioners",
        (Version("v1alpha5", v1alpha5.Provisioner, (PrinterColumn("Template", ".spec.providerRef.name"), _WEIGHT)),),
    ),
    CustomResource(
        labels.GROUP,
        "machines",
        (
            Version(
                "v1alpha5",
                v1alpha5.Machine,
                (
                    _TYPE,
                    _ZONE,
                    _NODE,
                    _READY,
                    _AGE,
                    _WIDE_CAPACITY,
                    PrinterColumn("Provisioner", _label(f"{labels.GROUP}/provisioner-name"), wide=True),
                    PrinterColumn("Template", ".spec.machineTemplateRef.name", wide=True),
                ),
            ),
        ),
    ),
    CustomResource(labels.AWS_GROUP, "awsnodetemplates", (Version("v1alpha1", v1alpha1.AWSNodeTemplate, (_AGE,)),)),
)
