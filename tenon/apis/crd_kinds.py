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
class Column:
    """A column of `kubectl get`. A wide column appears only with ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True)
class Version:
    name: str
    model: type[ApiModel]
    columns: Sequence[Column]
    scale: dict[str, str] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class Resource:
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


_READY = Column("Ready", _condition("Ready"))
_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_WEIGHT = Column("Weight", ".spec.weight", "integer", wide=True)
_ROLE = Column("Role", ".spec.role", wide=True)
_TYPE = Column("Type", _label(labels.INSTANCE_TYPE))
_ZONE = Column("Zone", _label(labels.ZONE))
_NODE = Column("Node", ".status.nodeName")
_POOL = Column("NodePool", _label(labels.NODEPOOL), wide=True)
_CLASS = Column("NodeClass", ".spec.nodeClassRef.name", wide=True)
_CLASS_OF_POOL = Column("NodeClass", ".spec.template.spec.nodeClassRef.name")
_WIDE_CAPACITY = Column("Capacity", _label(labels.CAPACITY_TYPE), wide=True)

RESOURCES = (
    Resource(
        labels.GROUP,
        "nodepools",
        (
            Version(
                "v1",
                NodePool,
                (
                    _CLASS_OF_POOL,
                    Column("Nodes", ".status.nodes", "integer"),
                    _READY,
                    _AGE,
                    _WEIGHT,
                    Column("CPU", ".status.resources.cpu", wide=True),
                    Column("Memory", ".status.resources.memory", wide=True),
                    Column("Limit", ".spec.limits.cpu", wide=True),
                    Column("Capacity", _condition("CapacityAvailable"), wide=True),
                    Column("Price", ".status.pricePerHour", wide=True),
                ),
                scale={"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
            ),
            Version("v1beta1", v1beta1.NodePool, (_CLASS_OF_POOL, _WEIGHT)),
        ),
    ),
    Resource(
        labels.GROUP,
        "nodeclaims",
        (
            Version(
                "v1",
                NodeClaim,
                (
                    _TYPE,
                    Column("Capacity", _label(labels.CAPACITY_TYPE)),
                    _ZONE,
                    _NODE,
                    _READY,
                    _AGE,
                    Column("ImageID", ".status.imageID", wide=True),
                    Column("ID", ".status.providerID", wide=True),
                    _POOL,
                    _CLASS,
                    Column("Drifted", _condition("Drifted"), wide=True),
                    Column("Price", _annotation(labels.LAUNCH_PRICE), wide=True),
                    Column("Kept", _annotation(labels.KEEP_UNTIL), wide=True),
                    Column("Leaves", _condition("DisruptionReason", "reason"), wide=True),
                    Column("Drain", _condition("Drained", "message"), wide=True),
                ),
            ),
            Version("v1beta1", v1beta1.NodeClaim, (_TYPE, _ZONE, _NODE, _READY, _AGE, _WIDE_CAPACITY, _POOL, _CLASS)),
        ),
    ),
    Resource(
        labels.AWS_GROUP,
        "ec2nodeclasses",
        (
            Version("v1", EC2NodeClass, (_READY, _AGE, _ROLE)),
            Version("v1beta1", v1beta1_ec2nodeclass.EC2NodeClass, (_READY, _AGE, _ROLE)),
        ),
        short_names=("ec2nc", "ec2ncs"),
    ),
    Resource(
        labels.GROUP,
        "nodeoverlays",
        (Version("v1alpha1", NodeOverlay, (_READY, _AGE, _WEIGHT)),),
        short_names=("overlays",),
    ),
    Resource(
        labels.TENON_GROUP,
        "noderepairpolicies",
        (
            Version(
                "v1alpha1",
                NodeRepairPolicy,
                (
                    Column("NodePools", ".status.nodePools", "integer"),
                    Column("Matching", ".status.matchingNodes", "integer"),
                    _READY,
                    _AGE,
                    _WEIGHT,
                    Column("Conditions", ".spec.faults[*].conditionType", wide=True),
                ),
            ),
        ),
        short_names=("nrp",),
    ),
    Resource(
        labels.TENON_GROUP,
        "noderollouts",
        (
            Version(
                "v1alpha1",
                NodeRollout,
                (
                    Column("NodePools", ".status.nodePools[*].name"),
                    Column("Phase", ".status.nodePools[*].phase"),
                    Column("Wave", ".status.nodePools[*].wave"),
                    _READY,
                    _AGE,
                    Column("OnFailure", ".spec.onFailure", wide=True),
                ),
            ),
        ),
        short_names=("nro",),
    ),
    Resource(
        labels.TENON_GROUP,
        "disruptionfreezes",
        (
            Version(
                "v1alpha1",
                DisruptionFreeze,
                (
                    Column("Active", ".status.active", "boolean"),
                    Column("Changes", ".status.nextChange"),
                    Column("NodePools", ".status.nodePools", "integer"),
                    Column("Reason", ".spec.reason"),
                    _AGE,
                    Column("By", ".spec.requestedBy", wide=True),
                ),
            ),
        ),
        short_names=("freeze", "freezes"),
    ),
    Resource(
        labels.TENON_GROUP,
        "nodeschedules",
        (
            Version(
                "v1alpha1",
                NodeSchedule,
                (
                    Column("Zone", ".spec.timeZone"),
                    Column("NodePools", ".spec.nodePools"),
                    Column("Holds", ".status.nodePools[*].holds"),
                    Column("Changes", ".status.nextChange"),
                    Column("Suspended", ".spec.suspend", "boolean", wide=True),
                    Column("Applied", '.status.conditions[?(@.type=="Applied")].status', wide=True),
                    _AGE,
                ),
            ),
        ),
        short_names=("nsched",),
    ),
    Resource(
        BUFFER_GROUP,
        "capacitybuffers",
        (
            Version(
                "v1beta1",
                CapacityBuffer,
                (
                    Column("Strategy", ".spec.provisioningStrategy"),
                    Column("PodTemplate", ".status.podTemplateRef.name"),
                    Column("Replicas", ".status.replicas", "integer"),
                    Column("ConditionsType", ".status.conditions[*].type"),
                    Column("ConditionsStatus", ".status.conditions[*].status"),
                    Column("ConditionsReason", ".status.conditions[*].reason"),
                    _AGE,
                ),
            ),
        ),
        short_names=("cb",),
        category="autoscaling",
        scope="Namespaced",
    ),
    Resource(
        labels.GROUP,
        "provisioners",
        (Version("v1alpha5", v1alpha5.Provisioner, (Column("Template", ".spec.providerRef.name"), _WEIGHT)),),
    ),
    Resource(
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
                    Column("Provisioner", _label(f"{labels.GROUP}/provisioner-name"), wide=True),
                    Column("Template", ".spec.machineTemplateRef.name", wide=True),
                ),
            ),
        ),
    ),
    Resource(labels.AWS_GROUP, "awsnodetemplates", (Version("v1alpha1", v1alpha1.AWSNodeTemplate, (_AGE,)),)),
)
