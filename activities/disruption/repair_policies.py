"""The NodeRepairPolicies of a cluster, as its cache holds them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tenon.apis.noderepairpolicy import NodeRepairPolicy


@dataclass(frozen=True, slots=True)
class RepairPolicies:
    """The NodeRepairPolicies of the cluster that users wrote."""

    policies: Sequence[NodeRepairPolicy]
    invalid: Collection[str] = ()
    """The names of those that have problems."""
