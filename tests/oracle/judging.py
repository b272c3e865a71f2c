"""The whole judgement: manifests, catalogue and plan in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.oracle.alone import check_place
from tests.oracle.between import Between
from tests.oracle.claims import check_claim, check_limits, check_reservations, check_totals
from tests.oracle.findings import Finding
from tests.oracle.inputs import Inputs, read_inputs
from tests.oracle.places import NewNode, Standing, claimed, standing_nodes
from tests.oracle.readings import Reading


def judge(
    manifests: Iterable[Mapping[str, Any]], catalogue: Mapping[str, Any], plan: Mapping[str, Any]
) -> list[Finding]:
    """Everything that is wrong with a plan; ``plan`` is what ``tenon simulate -o json`` prints."""
    return judge_inputs(read_inputs(manifests, catalogue), plan)


def judge_inputs(inputs: Inputs, plan: Mapping[str, Any]) -> list[Finding]:
    """The same for inputs that are read already."""
    claims, nodes = places_of(inputs, plan)
    finding = list(check_totals(inputs, plan))
    for claim in claims:
        finding += check_claim(inputs, claim)
    for place in (*nodes.values(), *claims):
        finding += check_place(inputs, place)
    finding += check_limits(inputs, claims, nodes.values())
    finding += check_reservations(claims)
    finding += Between(inputs, [*nodes.values(), *claims]).findings()
    return finding


def between_pods(inputs: Inputs, plan: Mapping[str, Any], reading: Reading) -> list[Finding]:
    """What a plan breaks of the rules between pods, read in one way or another."""
    claims, nodes = places_of(inputs, plan)
    return list(Between(inputs, [*nodes.values(), *claims], reading).findings())


def places_of(inputs: Inputs, plan: Mapping[str, Any]) -> tuple[list[NewNode], dict[str, Standing]]:
    """The claims and the nodes with the plan's pods on them."""
    nodes = standing_nodes(inputs)
    pending = inputs.pending
    claims = []
    for entry in plan["nodeClaims"]:
        claim = claimed(inputs, entry)
        claim.planned = [pending[key] for key in entry["pods"] if key in pending]
        claims.append(claim)
    for entry in plan["existingNodes"]:
        if entry["name"] in nodes:
            nodes[entry["name"]].planned += [pending[key] for key in entry["pods"] if key in pending]
    return claims, nodes
