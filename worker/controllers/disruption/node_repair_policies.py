"""Keeps the built-in NodeRepairPolicy as an object, and writes the status of every NodeRepairPolicy.

Nothing depends on the status: every pass evaluates the policies itself, with the same functions.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from activities.clock import utc_now
from activities.disruption.repair_source import RepairSource
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConflictError, NotFoundError
from activities.kubernetes.resources import NODEREPAIRPOLICIES
from tenon.apis.noderepairpolicy import BUILT_IN, NodeRepairPolicyStatus
from tenon.disruption.repair.user_policies import built_in_spec, policies_by_pool, repair_policy_conditions
from tenon.kube.records import ObjectRecord
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller

RETRY = 30.0


class NodeRepairPolicyController(Controller):
    """Writes the built-in policy and all statuses when a policy, a NodePool or the condition of a Node changed."""

    name = "noderepairpolicy"
    object_field = "noderepairpolicy"
    topics = (Topic.REPAIR_POLICY, Topic.POOL, Topic.NODE)
    interval = 10.0
    resync = 6 * 3600.0

    def __init__(self, kube: Kube, cache: ClusterCache, view: PlanningView, repair: RepairSource) -> None:
        super().__init__(cache)
        self._kube = kube
        self._view = view
        self._repair = repair
        self._is_served = True
        """Whether the CustomResourceDefinition exists, as far as this controller has seen."""

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Evaluate all policies: which holds for a NodePool depends on the others."""
        self._is_served = True
        succeeded = [await self.isolate(BUILT_IN, self._keep_built_in()), self._is_served]
        pools, matching = self._figures()
        for record in self._cache.repair_policies:
            written = self._write(record, pools[record.name], matching[record.name])
            succeeded.append(await self.isolate(record.name, written))
        return None if all(succeeded) else RETRY

    async def _keep_built_in(self) -> None:
        repair = self._repair()
        if repair is None:
            return
        spec = built_in_spec(repair.built_in).to_dict()
        record = self._cache.repair_policies.get(BUILT_IN)
        if record is None:
            body: dict[str, Any] = {
                "metadata": {"name": BUILT_IN},
                "spec": spec,
            }
            try:
                await self._kube.create(NODEREPAIRPOLICIES, body)
            except ConflictError:
                return  # the watch has yet to show it
            except NotFoundError:  # the cache says that the CustomResourceDefinition is missing
                self._is_served = False
                return
            self._log.info("The worker created the built-in NodeRepairPolicy", extra={"noderepairpolicy": BUILT_IN})
            return
        model, _ = self._view.repair_policy(record)
        if record.deleting or (model is not None and model.spec.to_dict() == spec):
            return
        # A merge patch would leave what a user added, such as a label of the selector.
        replaced = [{"op": "replace", "path": "/spec", "value": spec}]
        await self._kube.patch(NODEREPAIRPOLICIES, BUILT_IN, replaced, kind="json")
        self._log.warning(
            "The worker restored the built-in NodeRepairPolicy: write another policy with a nodePoolSelector instead",
            extra={"noderepairpolicy": BUILT_IN},
        )

    def _figures(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """By policy, how many NodePools it holds for, and how many of their nodes it matches."""
        pools, matching = Counter[str](), Counter[str]()
        repair = self._repair()
        if repair is None:
            return pools, matching
        node_pools = self._view.node_pools()
        policy_of = policies_by_pool(self._view.repair_policies().policies, node_pools)
        names = {
            pool.metadata.name: policy.metadata.name
            if (policy := policy_of.get(pool.metadata.name)) is not None
            else BUILT_IN
            for pool in node_pools
        }
        pools.update(names.values())
        for node in self._cache.nodes:
            claim = self._cache.claim_of(node) if node.unhealthy else None
            if claim is None or claim.pool not in names:
                continue
            if any(map(repair.policies_of(claim.pool).matching, node.unhealthy)):
                matching[names[claim.pool]] += 1
        return pools, matching

    async def _write(self, record: ObjectRecord, pools: int, matching: int) -> None:
        if record.deleting:
            return
        before = NodeRepairPolicyStatus.model_validate({"conditions": record.status.get("conditions") or []}).conditions
        problems = [str(fault) for fault in self._view.repair_policy(record)[1]]
        conditions = [
            condition.to_dict()
            for condition in repair_policy_conditions(
                before, problems, now=utc_now(), generation=record.body["metadata"].get("generation")
            )
        ]
        status = {"conditions": conditions, "nodePools": pools, "matchingNodes": matching}
        if all(record.status.get(field) == value for field, value in status.items()):
            return
        await self._kube.patch(NODEREPAIRPOLICIES, record.name, {"status": status}, subresource="status")
        if conditions != record.status.get("conditions"):
            validation = conditions[0]
            self._log.log(
                logging.INFO if validation["status"] == "True" else logging.WARNING,
                "The controller evaluated a NodeRepairPolicy",
                extra={
                    "noderepairpolicy": record.name,
                    "reason": validation["reason"],
                    "condition-message": validation["message"],
                },
            )
