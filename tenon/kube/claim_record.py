"""A NodeClaim as read from the API server: the one place that says what its fields, labels and annotations mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tenon.apis import labels
from tenon.apis.duration import go_seconds
from tenon.apis.nodeclaim import INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, REBOOTING, REGISTERED
from tenon.apis.warm import STATES
from tenon.kube.planned_pods import PlannedPod, planned_pods
from tenon.kube.records import ObjectRecord
from tenon.kube.taints import Taint, parse_taints
from tenon.kube.timestamps import parse_instant

LAST_POD_EVENT_TIME = "lastPodEventTime"
"""The field of a NodeClaim's status in which the leader records the last time that a pod came or went."""


def provider_id_of(zone: str, instance_id: str) -> str:
    """Return the provider ID of an EC2 instance, as AWS's cloud controller writes it on the Node."""
    return f"aws:///{zone}/{instance_id}"


def instance_id_of(provider_id: str) -> str:
    """Return the instance ID in a provider ID; empty if it does not have one."""
    last = provider_id.rsplit("/", 1)[-1]
    return last if last.startswith("i-") else ""


def class_key_of(node_class: str, pool: str, version: str) -> str:
    """Return the key of an EC2NodeClass in a version of a NodePool; its name if ``version`` is empty."""
    return f"{node_class}@{pool}-{version}" if version else node_class


@dataclass(frozen=True, slots=True)
class ClaimRecord(ObjectRecord):
    """A NodeClaim for everything that reads one: the cache holds it, activities and commands make it with `of`.

    The model `tenon.apis.nodeclaim.NodeClaim` validates what users write, which is too slow for each change of each
    claim, fails as a whole if one field is malformed, and drops the fields that it does not know.
    """

    @property
    def pool(self) -> str:
        """The name of its NodePool; empty for a stand-alone claim."""
        return self.labels.get(labels.NODEPOOL, "")

    @property
    def node_class(self) -> str:
        """The name of its EC2NodeClass."""
        return str((self.spec.get("nodeClassRef") or {}).get("name") or "")

    @property
    def class_key(self) -> str:
        """The key of its EC2NodeClass in the version that it launches: the name, and the version if it has one."""
        return class_key_of(self.node_class, self.pool, self.annotations.get(labels.REVISION, ""))

    @property
    def instance_types(self) -> list[str]:
        """The instance types that it names; empty if it does not name them."""
        terms = (term for term in self.spec.get("requirements") or () if term.get("key") == labels.INSTANCE_TYPE)
        return [str(name) for term in terms if term.get("operator") == "In" for name in term.get("values") or ()]

    @property
    def batch(self) -> int:
        """The number of the batch that it was planned in; 0 if it was not planned for pods."""
        text = self.labels.get(labels.BATCH, "")
        return int(text) if text.isdecimal() else 0

    @property
    def planned_pods(self) -> list[PlannedPod]:
        """The pods that it was launched for."""
        return planned_pods(self.annotations)

    @property
    def provider_id(self) -> str:
        """The provider ID of its instance; empty before the launch."""
        return self.status.get("providerID") or ""

    @property
    def launch_attempt(self) -> int:
        """The number of its launch; 0 if it has only its first one, or that of its launch group."""
        text = self.annotations.get(labels.LAUNCH_ATTEMPT, "")
        return int(text) if text.isdecimal() else 0

    @property
    def instance_id(self) -> str:
        """The EC2 instance ID in its provider ID; empty before the launch."""
        return instance_id_of(self.provider_id)

    @property
    def image_id(self) -> str:
        """The machine image of its instance; empty before the launch."""
        return self.status.get("imageID") or ""

    @property
    def image_and_type(self) -> frozenset[str]:
        """The machine image and the instance type of its instance, as far as they are recorded."""
        return frozenset(filter(None, (self.image_id, self.labels.get(labels.INSTANCE_TYPE, ""))))

    @property
    def subnet_id(self) -> str:
        """The subnet of its instance; empty if it was not recorded."""
        return self.annotations.get(labels.SUBNET_ID, "")

    @property
    def security_group_ids(self) -> frozenset[str]:
        """The security groups of its instance; empty if they were not recorded."""
        return frozenset(filter(None, self.annotations.get(labels.SECURITY_GROUP_IDS, "").split(",")))

    @property
    def node_name(self) -> str:
        """The name of the Node that it registered as; empty before the registration."""
        return self.status.get("nodeName") or ""

    @property
    def launched(self) -> bool:
        """Whether its launch is recorded completely: the status has the instance and what the instance offers."""
        return self.is_true(LAUNCHED)

    @property
    def launched_at(self) -> datetime | None:
        """When the launch was recorded; None before that."""
        return self.true_since(LAUNCHED)

    @property
    def registered(self) -> bool:
        """Whether it ever had a Node. If not, there is nothing to cordon or drain."""
        return self.is_true(REGISTERED)

    @property
    def registered_at(self) -> datetime | None:
        """When its Node was registered; None before that."""
        return self.true_since(REGISTERED)

    @property
    def initialized(self) -> bool:
        """Whether its Node was ready for pods once."""
        return self.is_true(INITIALIZED)

    @property
    def initialized_at(self) -> datetime | None:
        """When its Node became ready for pods; None before that."""
        return self.true_since(INITIALIZED)

    @property
    def terminating(self) -> bool:
        """Whether EC2 has accepted the termination of its instance, or does not know it any more."""
        return self.is_true(INSTANCE_TERMINATING)

    @property
    def rebooting(self) -> bool:
        """Whether a reboot of its machine was requested and has not ended."""
        return self.is_true(REBOOTING)

    @property
    def reboot_requested_at(self) -> datetime | None:
        """When the reboot that goes on was requested; None if none does."""
        return self.true_since(REBOOTING)

    @property
    def rebooted_at(self) -> datetime | None:
        """When its last reboot ended, well or badly; None if there was none, or one goes on."""
        written = self.condition(REBOOTING)
        return parse_instant(written.get("lastTransitionTime")) if written.get("status") == "False" else None

    @property
    def reboots(self) -> tuple[datetime, ...]:
        """When its recorded reboots were requested, the oldest first. Malformed times are left out."""
        texts = self.annotations.get(labels.REBOOTS, "").split(",")
        return tuple(sorted(instant for text in texts if (instant := parse_instant(text.strip())) is not None))

    @property
    def warm(self) -> str:
        """The state of its warm node: filling, stopped or starting; empty if it is an ordinary node."""
        state = self.annotations.get(labels.WARM, "")
        return state if state in STATES else ""

    @property
    def warm_since(self) -> datetime | None:
        """Since when its warm node is in that state; None if that was not recorded, or is malformed."""
        return parse_instant(self.annotations.get(labels.WARM_SINCE))

    @property
    def pre_boot_id(self) -> str:
        """The boot ID of its Node before its machine was asked to reboot; empty if it was not asked."""
        return self.annotations.get(labels.REBOOT_PRE_BOOT_ID, "")

    @property
    def last_pod_event(self) -> datetime | None:
        """The last time that a pod came or went; None if that was not recorded, or is malformed."""
        return parse_instant(self.status.get(LAST_POD_EVENT_TIME))

    def quiet_since(self, last_pod_event: datetime | None = None) -> datetime | None:
        """When a pod last came or went, or when the node was initialized if that is later (DIS-30).

        consolidateAfter counts from it. ``last_pod_event``: the last one that was seen, which the status may lack.
        """
        instants = (self.initialized_at, self.last_pod_event, last_pod_event)
        return max((instant for instant in instants if instant is not None), default=None)

    @property
    def keep_until(self) -> datetime | None:
        """Until when an operator wants to keep the node."""
        return parse_instant(self.annotations.get(labels.KEEP_UNTIL))

    @property
    def launch_price(self) -> float | None:
        """What its instance cost at launch, in dollars an hour; None if that was not recorded, or is malformed."""
        try:
            price = float(self.annotations.get(labels.LAUNCH_PRICE, ""))
        except ValueError:
            return None
        return price if math.isfinite(price) and price >= 0 else None

    @property
    def disrupted_by(self) -> str:
        """The open disruption command that prepares to remove its node; empty if there is none."""
        return self.annotations.get(labels.DISRUPTED_BY) or ""

    @property
    def replacement_for(self) -> str:
        """The open disruption command that it was created for; empty if there is none."""
        return self.annotations.get(labels.REPLACEMENT_FOR) or ""

    @property
    def expire_after_seconds(self) -> float | None:
        """How old its node may become; None for no limit, or if the duration is malformed."""
        return go_seconds(self.spec.get("expireAfter") or "")

    @property
    def termination_grace_seconds(self) -> float | None:
        """How long a drain respects what protects pods; None for no limit, or if the duration is malformed."""
        return go_seconds(self.spec.get("terminationGracePeriod") or "")

    @property
    def termination_mode(self) -> Literal["graceful", "eventual", "forceful"]:
        """How long protected pods keep its node, in metrics: without a limit, for a time, or not at all."""
        seconds = self.termination_grace_seconds
        return "graceful" if seconds is None else "eventual" if seconds > 0 else "forceful"

    @property
    def termination_timestamp(self) -> datetime | None:
        """When the drain deletes all pods, whatever protects them; None if that was not recorded."""
        return parse_instant(self.annotations.get(labels.TERMINATION_TIMESTAMP))

    def is_forced(self, now: datetime) -> bool:
        """Whether it says that a drain of its node deletes all pods now, whatever protects them."""
        return self.termination_timestamp is not None and self.termination_timestamp <= now

    @property
    def has_finalizer(self) -> bool:
        """Whether Tenon's finalizer keeps it until its instance is gone."""
        return labels.TERMINATION_FINALIZER in self.finalizers

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The taints of its Node, without startup taints."""
        return parse_taints(self.spec.get("taints"))

    @property
    def startup_taints(self) -> tuple[Taint, ...]:
        """The taints that other components remove before the Node counts as initialized."""
        return parse_taints(self.spec.get("startupTaints"))
