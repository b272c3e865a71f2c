"""What Reserved Instances and Savings Plans mean for disruption.

A covered node costs nothing that its removal would save, so consolidation removes it only if it is empty. A new node
costs nothing either while a commitment has enough left for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tenon.apis import labels
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.nodes import NodeDetail
from tenon.ec2.commitments.coverage import Coverage
from tenon.ec2.commitments.pools import with_commitments, with_commitments_of
from tenon.scheduling.offerings.commitments import covered_price

NO_SAVING = 1e-3
"""What a covered node counts as a share of the price of a new one that is covered. So not even the dearest nodes of a
move add up to a saving, and no covered node replaces another; but they keep their order."""


def with_coverage(model: ClusterModel, coverage: Coverage) -> ClusterModel:
    """Return the model with what the account's commitments cover of its nodes, and leave for new ones."""
    if not coverage.remaining and not coverage.covered:
        return model
    wave_pools = with_commitments_of(list(model.wave_pools.values()), coverage.remaining)
    return replace(
        model,
        problem=with_commitments(model.problem, coverage.remaining),
        details=covered_details(model.details, coverage),
        wave_pools={pool.name: pool for pool in wave_pools},
    )


def covered_details(details: Mapping[str, NodeDetail], coverage: Coverage) -> dict[str, NodeDetail]:
    """Return what is known of nodes, by NodeClaim, with the prices of covered ones, whose removal saves nothing."""
    return {name: _priced(detail, coverage.covered, name) for name, detail in details.items()}


def _priced(detail: NodeDetail, covered: Mapping[str, str], claim: str) -> NodeDetail:
    if claim not in covered or detail.capacity_type != labels.ON_DEMAND:
        return detail
    return replace(detail, price=covered_price(detail.price) * NO_SAVING)
