"""A client for the admin API, for tests and the demo."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sandbox.ec2.region import ZONES

TIMEOUT = 300.0
"""Seconds. Only a server that hangs takes so long: on a busy machine a reset has taken more than 30."""


class Ec2Admin:
    """A client for the sandbox's EC2 at ``endpoint``, such as ``http://127.0.0.1:5000``."""

    def __init__(self, endpoint: str) -> None:
        self._base = endpoint.rstrip("/") + "/sandbox/"

    def health(self) -> dict[str, Any]:
        """The number of instances by state, and of the mock's own failures (``internal_errors``)."""
        return self._call("GET", "health")

    def fault(
        self,
        action: str,
        code: str = "",
        *,
        status: int = 400,
        message: str = "",
        count: int | None = 1,
        latency_seconds: float = 0.0,
        after_effect: bool = False,
        chance: float = 1.0,
        seed: int = 0,
        label: str = "",
        value: str = "",
    ) -> None:
        """Make the next ``count`` calls of an action fail (None: until cleared), be slow, or both.

        With a ``chance`` below 1 this affects only that share of the calls, chosen by ``seed``. ``label`` is a name to
        clear it by. With a ``value`` it affects only calls that have this value in one of their parameters.
        """
        body = {"action": action, "code": code, "status": status, "message": message, "count": count}
        more = {"latency_seconds": latency_seconds, "after_effect": after_effect}
        self._call("POST", "faults", {**body, **more, "chance": chance, "seed": seed, "label": label, "value": value})

    def clear_faults(self, action: str = "", *, label: str = "") -> None:
        """End all faults, or those of one action or label."""
        self._call("DELETE", "faults", action=action, label=label)

    def hold(self, action: str, *, after_effect: bool = False, count: int | None = 1) -> None:
        """Make the next ``count`` calls of an action wait, before their effect or after it with the answer withheld.

        A held call continues on `release`. If its client disconnects first, it has no (further) effect.
        """
        self._call("POST", "holds", {"action": action, "after_effect": after_effect, "count": count})

    def held(self) -> int:
        """The number of calls that are waiting now."""
        return int(self._call("GET", "holds")["held"])

    def release(self) -> None:
        """Release every held call, and end all holds."""
        self._call("DELETE", "holds")

    def throttle(self, action: str, rate: float, burst: float) -> None:
        """Limit an action to ``rate`` calls per second after a burst."""
        self._call("POST", "throttle", {"action": action, "rate": rate, "burst": burst})

    def clear_throttle(self) -> None:
        """Remove every limit."""
        self._call("DELETE", "throttle")

    def buckets(self) -> dict[str, Any]:
        """Whether the account's request limits are ``enforced``, and the number of calls that each bucket
        ``refused``.
        """
        return self._call("GET", "buckets")

    def enforce_buckets(self, enforced: bool = True) -> None:
        """Turn the account's request limits on, with full buckets, or off."""
        self._call("POST", "buckets", {"enforced": enforced})

    def rights(self) -> dict[str, Any]:
        """Whether calls are judged (``enforced``), the actions that workers ``used``, and what was ``refused``: action,
        resource, message.
        """
        return self._call("GET", "rights")

    def enforce_rights(self, enforced: bool = True) -> None:
        """Judge the workers' calls by their policies, or let every call through."""
        self._call("POST", "rights", {"enforced": enforced})

    def policy(self, document: dict[str, Any] | None, *, cluster: str = "") -> None:
        """Replace the policy of a cluster's worker (None: the shipped one). Refusals under it count as expected."""
        self._call("POST", "policy", {"cluster": cluster, "document": document})

    def capacity(
        self,
        available: int | None = 0,
        *,
        type: str | None = None,
        zone: str | None = None,
        capacity_type: str | None = None,
    ) -> None:
        """Leave ``available`` instances in each matching pool (None: no limit). Omitted arguments match everything."""
        self._call(
            "POST", "capacity", {"type": type, "zone": zone, "capacity_type": capacity_type, "available": available}
        )

    def quota(self, instance_type: str, vcpus: int = 0, *, capacity_type: str = "on-demand") -> None:
        """Limit the account's vCPU quota that instances of this type count against."""
        self._call("POST", "quotas", {"type": instance_type, "capacity_type": capacity_type, "vcpus": vcpus})

    def clear_quotas(self) -> None:
        """Remove the limits of every vCPU quota."""
        self._call("DELETE", "quotas")

    def clear_capacity(self) -> None:
        """Make every pool unlimited."""
        self._call("DELETE", "capacity")

    def boot(
        self,
        *,
        delay: float | None = None,
        never: bool = False,
        not_ready: bool = False,
        dies: bool = False,
        console: str = "",
        type: str | None = None,
        chance: float = 1.0,
        seed: int = 0,
    ) -> None:
        """Change how instances become nodes from now on, for one type, or for a share of them chosen by ``seed``.

        ``console``: what they write to their console while they boot.
        """
        body = {"type": type, "delay": delay, "never": never, "not_ready": not_ready, "dies": dies, "console": console}
        self._call("POST", "boot", {**body, "chance": chance, "seed": seed})

    def exhaust_cheapest(
        self, count: int, *, capacity_type: str | None = None, types: Iterable[str] = ()
    ) -> list[dict[str, Any]]:
        """Empty the ``count`` cheapest pools that still have capacity (within ``types``). `clear_capacity` refills
        them.

        Returns:
            The emptied pools, cheapest first: type, zone, capacity_type, price.
        """
        body = {"count": count, "capacity_type": capacity_type, "types": list(types)}
        pools: list[dict[str, Any]] = self._call("POST", "exhaust-cheapest", body)["pools"]
        return pools

    def spot_role(self, exists: bool) -> None:
        """Delete EC2's service-linked role for spot from the account, or create it."""
        self._call("POST", "spot-role", {"exists": exists})

    def kill_instance(self, instance_id: str) -> None:
        """Terminate an instance as another user would. Its Node stays behind, not ready."""
        self._call("POST", "kill-instance", {"id": instance_id})

    def stop_instance(self, instance_id: str) -> None:
        """Stop an instance as another user would. Its Node stays behind, not ready."""
        self._call("POST", "stop-instance", {"id": instance_id})

    def vanish_instance(self, instance_id: str) -> None:
        """Make EC2 forget an instance (InvalidInstanceID.NotFound). Its Node stays behind, not ready."""
        self._call("POST", "vanish-instance", {"id": instance_id})

    def interrupt_instance(self, instance_id: str, *, notice_seconds: float = 120.0) -> None:
        """Send the interruption notice of a spot instance, and take it back after ``notice_seconds``. Its Node stays
        behind, not ready.
        """
        self._call("POST", "interrupt-instance", {"id": instance_id, "notice_seconds": notice_seconds})

    def recommend_rebalance(self, instance_id: str) -> None:
        """Send EC2's recommendation to replace a spot instance."""
        self._call("POST", "recommend-rebalance", {"id": instance_id})

    def schedule_retirement(self, instance_id: str) -> None:
        """Send AWS Health's notice that an instance will be retired."""
        self._call("POST", "schedule-retirement", {"id": instance_id})

    def impair_instance(self, instance_id: str, check: str = "instance", *, seconds: float | None = 0.0) -> None:
        """Make a status check, ``system`` or ``instance``, fail since ``seconds`` ago. None: it passes again."""
        self._call("POST", "impair-instance", {"id": instance_id, "check": check, "seconds": seconds})

    def silence_kubelet(self, instance_id: str, *, silent: bool = True) -> None:
        """Make the kubelet of an instance report nothing, so that its Node is not ready, or report again."""
        self._call("POST", "silence-kubelet", {"id": instance_id, "silent": silent})

    def schedule_event(self, instance_id: str, code: str = "instance-stop", description: str = "degraded") -> None:
        """Announce an event in the status of an instance, and nowhere else."""
        self._call("POST", "schedule-event", {"id": instance_id, "code": code, "description": description})

    def reserve(
        self,
        type: str,
        zone: str,
        count: int,
        *,
        tags: dict[str, str] | None = None,
        criteria: str = "targeted",
        block: bool = False,
        interruptible: bool = False,
        end: datetime | None = None,
    ) -> str:
        """Create a capacity reservation, a capacity block, or an interruptible reservation. Returns its ID."""
        body = {"type": type, "zone": zone, "count": count, "tags": tags or {}, "criteria": criteria}
        more = {"block": block, "interruptible": interruptible, "end": end.isoformat() if end else None}
        return str(self._call("POST", "reserve", body | more)["id"])

    def reserved_instances(self, type: str, count: int, zone: str = "") -> str:
        """Buy Reserved Instances, for a zone or else for the region. Returns their ID."""
        return str(self._call("POST", "reserved-instances", {"type": type, "count": count, "zone": zone})["id"])

    def savings_plan(self, commitment: float, family: str = "") -> str:
        """Buy a Savings Plan of so many dollars an hour, for a family or else for all compute. Returns its ID."""
        return str(self._call("POST", "savings-plan", {"commitment": commitment, "family": family})["id"])

    def spot_scores(self, scores: dict[str, int]) -> None:
        """State the Spot placement scores of zones, by zone ID. Those of other zones follow from their capacity."""
        self._call("POST", "spot-scores", {"scores": scores})

    def end_reservation(self, reservation_id: str, *, at: datetime | None = None) -> None:
        """End a capacity reservation, now or at a time. The instances of a block end with it, others stay."""
        self._call("POST", "end-reservation", {"id": reservation_id, "at": at.isoformat() if at else None})

    def placement_group(self, name: str, strategy: str, *, partitions: int = 0) -> str:
        """Create a placement group with the strategy cluster, partition or spread. Returns its ID."""
        body = {"name": name, "strategy": strategy, "partitions": partitions}
        return str(self._call("POST", "placement-group", body)["id"])

    def shift_zone(self, zone_id: str, *, away: bool = True, auto: bool = False) -> None:
        """Start or end a zonal shift of the cluster, by hand or as ARC does by itself (``auto``)."""
        self._call("POST", "shift-zone", {"zone": zone_id, "away": away, "auto": auto})

    def plant_instance(
        self,
        tags: dict[str, str],
        *,
        type: str = "m7g.large",
        zone: str = ZONES[0],
        capacity_type: str = "on-demand",
        age_seconds: float = 0.0,
        joins: bool = False,
        reservation: str = "",
    ) -> str:
        """Launch an instance that no autoscaler requested, dated ``age_seconds`` ago. It becomes a node only if
        ``joins`` is set, and takes a place in the capacity ``reservation`` if that is given.

        Returns:
            The instance ID.
        """
        body = {"tags": tags, "type": type, "zone": zone, "capacity_type": capacity_type}
        return str(
            self._call(
                "POST",
                "plant-instance",
                {**body, "age_seconds": age_seconds, "joins": joins, "reservation": reservation},
            )["id"]
        )

    def plant_launch_template(self, name: str, tags: dict[str, str], *, age_seconds: float = 0.0) -> str:
        """Create an unused launch template, dated ``age_seconds`` ago. Returns its ID."""
        body = {"name": name, "tags": tags, "age_seconds": age_seconds}
        return str(self._call("POST", "plant-launch-template", body)["id"])

    def clear_boot(self) -> None:
        """Make instances boot normally."""
        self._call("DELETE", "boot")

    def lifecycle(
        self, *, pending: float | None = None, shutting_down: float | None = None, purge: float | None = None
    ) -> None:
        """Set how many seconds states last."""
        self._call("POST", "lifecycle", {"pending": pending, "shutting_down": shutting_down, "purge": purge})

    def consistency(
        self, *, profile: float = 0.0, instance: float = 0.0, tags: float = 0.0, chance: float = 0.5, seed: int = 0
    ) -> None:
        """Set how many seconds it takes at most until what was created is seen: a new instance profile by launches, and
        new instances and their tags by DescribeInstances. A share of the instances is late, drawn from ``seed``.
        """
        body = {"profile": profile, "instance": instance, "tags": tags, "chance": chance, "seed": seed}
        self._call("POST", "consistency", body)

    def usual_consistency(self) -> None:
        """Undo `consistency`."""
        self._call("DELETE", "consistency")

    def calls(self, action: str = "") -> list[dict[str, Any]]:
        """The calls received, oldest first: service, action, parameters, status, error, time."""
        calls: list[dict[str, Any]] = self._call("GET", "calls", action=action)["calls"]
        return calls

    def clear_calls(self) -> None:
        """Clear the record of calls."""
        self._call("DELETE", "calls")

    def rejections(self) -> list[dict[str, Any]]:
        """Pods that a node refused to run: namespace, name, uid, node, reason, message."""
        rejections: list[dict[str, Any]] = self._call("GET", "rejections")["rejections"]
        return rejections

    def misplaced(self) -> list[dict[str, Any]]:
        """Pods that were bound despite a NoSchedule taint: as `rejections`, with ``taints``."""
        misplaced: list[dict[str, Any]] = self._call("GET", "rejections")["misplaced"]
        return misplaced

    def clear_rejections(self) -> None:
        """Clear the rejected and the misplaced pods."""
        self._call("DELETE", "rejections")

    def instances(self) -> list[dict[str, Any]]:
        """All instances: id, type, zone, capacity_type, state, private_dns_name, fleet_id, launched, price, tags."""
        instances: list[dict[str, Any]] = self._call("GET", "instances")["instances"]
        return instances

    def bill(self) -> dict[str, Any]:
        """What the account has to pay: ``lines`` with instance, type, zone, capacity_type, price, seconds, running,
        charge and tags, and their ``total``. Amounts are texts in dollars, with all digits.
        """
        return self._call("GET", "bill")

    def reset(self) -> None:
        """Empty the account and seed it again."""
        self._call("POST", "reset")

    def _call(self, method: str, name: str, body: dict[str, Any] | None = None, **query: str) -> dict[str, Any]:
        url = self._base + name + (f"?{urllib.parse.urlencode(query)}" if any(query.values()) else "")
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, content, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                parsed: dict[str, Any] = json.load(answer)
                return parsed
        except urllib.error.HTTPError as error:
            raise ValueError(_reason(error.read().decode())) from error


def _reason(answer: str) -> str:
    """The message in the body of a refusal; the whole body if it has none."""
    try:
        message = json.loads(answer)["message"]
    except (ValueError, KeyError, TypeError):
        message = answer
    return f"The sandbox's EC2 refused the call: {message}"
