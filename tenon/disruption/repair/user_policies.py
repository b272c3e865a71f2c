"""Repair policies that users state in NodeRepairPolicy objects: which holds for which NodePool, and as what data.

Of the policies that select a NodePool, the one of the highest weight holds, and of equal ones the first by name, as for
NodePools. A policy that is not valid still holds, and repairs nothing: its author wanted something else than what the
next policy does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import cast

from tenon.apis.common import Condition, ConditionStatus
from tenon.apis.conditions import with_validation
from tenon.apis.duration import Duration
from tenon.apis.nodepool import Budget, NodePool
from tenon.apis.noderepairpolicy import (
    Action,
    FaultRule,
    NodePoolSelector,
    NodeRepairPolicy,
    NodeRepairPolicySpec,
    RebootLimit,
)
from tenon.apis.noderepairpolicy import RepairStep as WrittenStep
from tenon.disruption.repair.policies import (
    ANY_REASON,
    LadderStep,
    RepairAction,
    RepairPolicy,
    RepairPolicySet,
    validated,
)
from tenon.disruption.repair.pool_policies import PoolRepair, RepairBudgets
from tenon.kube.selectors import LabelSelector

INVALID = "InvalidRepairPolicy"
"""The reason of ValidationSucceeded=False."""
_ACTIONS = {action.text: action for action in RepairAction}


def policies_by_pool(policies: Iterable[NodeRepairPolicy], pools: Iterable[NodePool]) -> dict[str, NodeRepairPolicy]:
    """Return, by NodePool, the policy that holds for it. NodePools that no policy selects are missing."""
    ranked = sorted(policies, key=lambda policy: (-(policy.spec.weight or 0), policy.metadata.name))
    selectors = [(policy, selector_of(policy.spec.node_pool_selector)) for policy in ranked]
    return {
        pool.metadata.name: policy
        for pool in pools
        if (policy := _first_match(selectors, pool.metadata.labels)) is not None
    }


def _first_match(
    selectors: Iterable[tuple[NodeRepairPolicy, LabelSelector]], labels: Mapping[str, str]
) -> NodeRepairPolicy | None:
    return next((policy for policy, selector in selectors if selector.matches(labels)), None)


def selector_of(selector: NodePoolSelector) -> LabelSelector:
    """Return the selector as one that matches labels."""
    exact = LabelSelector().also(selector.match_labels)
    return exact.both(
        LabelSelector(
            tuple((term.key, term.operator, tuple(sorted(term.values))) for term in selector.match_expressions)
        )
    )


def repair_policy_conditions(
    before: Sequence[Condition], problems: Sequence[str], *, now: datetime, generation: int | None = None
) -> list[Condition]:
    """Return the new conditions of a NodeRepairPolicy.

    Args:
        before: its current conditions.
        problems: what is wrong with it, in sentences.
        now: the time.
        generation: the generation that was checked.
    """
    return with_validation(
        before,
        problems,
        reason=INVALID,
        consequence="The NodePools that it selects are not repaired until then",
        now=now,
        generation=generation,
    )


def policy_set(policy: NodeRepairPolicy) -> RepairPolicySet:
    """Return what a valid policy says, as data. One that states no fault repairs nothing.

    Raises:
        InvalidRepairPolicyError: the policy has problems that `tenon.apis.validation` reports.
    """
    rules = [_repair_policy(policy.metadata.name, rule) for rule in policy.spec.faults]
    return validated(rules, by_user=True) if rules else RepairPolicySet()


def pool_repair(
    built_in: RepairPolicySet,
    policies: Iterable[NodeRepairPolicy],
    invalid: Collection[str],
    pools: Iterable[NodePool],
) -> PoolRepair:
    """Return what repair does in each NodePool.

    Args:
        built_in: the policies of NodePools that no policy selects.
        policies: what users state.
        invalid: the names of those with problems, which repair nothing.
        pools: the NodePools of the cluster.
    """
    policy_of = policies_by_pool(policies, pools)
    pools_of = defaultdict[str, set[str]](set)
    for pool, policy in policy_of.items():
        pools_of[policy.metadata.name].add(pool)
    sets = {
        policy.metadata.name: RepairPolicySet() if policy.metadata.name in invalid else policy_set(policy)
        for policy in policy_of.values()
    }
    return PoolRepair(
        built_in,
        by_pool={pool: sets[policy.metadata.name] for pool, policy in policy_of.items()},
        budgets={
            pool: RepairBudgets(policy.metadata.name, frozenset(pools_of[policy.metadata.name]), budgets)
            for pool, policy in policy_of.items()
            if (budgets := budgets_of(policy))
        },
    )


def built_in_spec(built_in: RepairPolicySet) -> NodeRepairPolicySpec:
    """Return the built-in policies as users would write them.

    Their fallback is a rule without a reason, because every other condition of theirs matches any reason.
    """
    return NodeRepairPolicySpec(faults=[_written(policy) for policy in built_in.policies])


def _written(policy: RepairPolicy) -> FaultRule:
    bound = policy.drain_bound
    return FaultRule(
        condition_type=policy.condition,
        condition_status=cast("ConditionStatus", policy.status),
        reason_regex=None if policy.reason == ANY_REASON else policy.reason,
        toleration_duration=_text(policy.toleration),
        termination_grace_period=None if bound is None else _text(bound),
        priority=policy.priority,
        steps=[_written_step(step) for step in policy.steps],
    )


def _written_step(step: LadderStep) -> WrittenStep:
    limit = None
    if step.at_most is not None and step.within is not None:
        limit = RebootLimit(times=step.at_most, within=_text(step.within))
    return WrittenStep(
        action=cast("Action", step.action.text),
        patience=_text(step.patience) if step.patience else None,
        limit=limit,
    )


def budgets_of(policy: NodeRepairPolicy) -> tuple[Budget, ...]:
    """Return the budgets of a policy as those of a NodePool, for every reason."""
    return tuple(
        Budget(nodes=budget.nodes, schedule=budget.schedule, duration=budget.duration) for budget in policy.spec.budgets
    )


def _repair_policy(name: str, rule: FaultRule) -> RepairPolicy:
    return RepairPolicy(
        condition=rule.condition_type,
        status=rule.condition_status,
        reason=rule.reason_regex,
        toleration=_time(rule.toleration_duration),
        drain_bound=None if rule.termination_grace_period is None else _time(rule.termination_grace_period),
        priority=rule.priority,
        steps=tuple(_step(step) for step in rule.steps),
        name=name,
    )


def _step(step: WrittenStep) -> LadderStep:
    return LadderStep(
        action=_ACTIONS[step.action],
        patience=timedelta() if step.patience is None else _time(step.patience),
        at_most=None if step.limit is None else step.limit.times,
        within=None if step.limit is None else _time(step.limit.within),
    )


def _time(duration: Duration) -> timedelta:
    return timedelta(seconds=duration.seconds or 0)


def _text(time: timedelta) -> Duration:
    seconds = int(time.total_seconds())
    return next(Duration(f"{seconds // unit}{name}") for name, unit in _UNITS if seconds % unit == 0)


_UNITS = (("h", 3600), ("m", 60), ("s", 1))
