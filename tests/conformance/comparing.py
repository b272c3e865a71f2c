"""What of an expectation a plan does not meet, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any

import yaml

from tenon.apis import labels
from tenon.resources import parse_resources
from tests.conformance.scenario import Expected, ExpectedClaim

Plan = Mapping[str, Any]
Entry = Mapping[str, Any]
_NEARLY = 1e-6
"""Dollars an hour by which prices may differ and be the same."""


def differences(expected: Expected, plan: Plan, manifests: str) -> Iterator[str]:
    """Everything of the expectation that does not hold for the plan of these manifests."""
    claims = plan["nodeClaims"]
    if expected.claim_count is not None and len(claims) != expected.claim_count:
        yield f"claimCount: expected {expected.claim_count}, got {len(claims)}"
    if expected.claims is not None:
        yield from _unmatched(expected.claims, claims)
    if expected.existing is not None:
        existing = {node["name"]: sorted(node["pods"]) for node in plan["existingNodes"]}
        target = {name: sorted(pods) for name, pods in expected.existing.items() if pods}
        if existing != target:
            yield f"existing: expected {target}, got {existing}"
    yield from _unschedulable(expected.unschedulable, plan["unschedulable"])
    price = plan["totals"]["pricePerHour"]
    if expected.price_per_hour is not None and abs(price - expected.price_per_hour) > _NEARLY:
        yield f"pricePerHour: expected {expected.price_per_hour}, got {price}"
    bound = plan["totals"]["lowerBoundPricePerHour"]
    if expected.price_per_bound is not None and not 0 < price <= expected.price_per_bound * (bound or 0):
        yield f"pricePerBound: expected at most {expected.price_per_bound}, got {price} at a bound of {bound}"
    value = _input(manifests)
    yield from _answers(plan, value)
    yield from _places(expected, plan, value)


def _answers(plan: Plan, value: _Input) -> Iterator[str]:
    """Each pod that waits has exactly one answer."""
    answers = Counter(pod for node in (*plan["nodeClaims"], *plan["existingNodes"]) for pod in node["pods"])
    answers.update(entry["pod"] for entry in plan["unschedulable"])
    for pod in sorted(value.waiting - answers.keys()):
        yield f"{pod} is nowhere in the plan"
    for pod in sorted(pod for pod, count in answers.items() if count > 1):
        yield f"{pod} is in the plan {answers[pod]} times"


def _unschedulable(expected: Mapping[str, Sequence[str]], entries: Sequence[Entry]) -> Iterator[str]:
    reasons = {entry["pod"]: entry["reason"] for entry in entries}
    for pod in sorted(expected.keys() - reasons.keys()):
        yield f"unschedulable: {pod} is not"
    for pod in sorted(reasons.keys() - expected.keys()):
        yield f"unschedulable: {pod} has no place: {reasons[pod]}"
    for pod, fragments in expected.items():
        for fragment in fragments:
            if pod in reasons and fragment not in reasons[pod]:
                yield f"unschedulable: {pod}: {fragment!r} is not in: {reasons[pod]}"


def _unmatched(expected: Sequence[ExpectedClaim], claims: Sequence[Entry]) -> Iterator[str]:
    """Pairs expectations with claims, by augmenting paths, and tells of those that stay alone."""
    if len(expected) != len(claims):
        yield f"claims: expected {len(expected)}, got {len(claims)}"
        return
    faults = [[list(_claim_faults(expectation, claim)) for claim in claims] for expectation in expected]
    holder: dict[int, int] = {}

    def place(number: int, numbers: set[int]) -> bool:
        for other, result in enumerate(faults[number]):
            if result or other in numbers:
                continue
            numbers.add(other)
            if other not in holder or place(holder[other], numbers):
                holder[other] = number
                return True
        return False

    alone = [number for number in range(len(expected)) if not place(number, set())]
    for number in alone:
        declaration = expected[number].model_dump(by_alias=True, exclude_unset=True)
        yield f"claims: no claim is left for {declaration}"
        for other, claim in enumerate(claims):
            if other not in holder:
                yield f"  {claim['name']}: {'; '.join(faults[number][other])}"


def _claim_faults(expected_claim: ExpectedClaim, claim: Entry) -> Iterator[str]:
    offering = claim["offering"]
    names = {
        "pods": (None if expected_claim.pods is None else sorted(expected_claim.pods), sorted(claim["pods"])),
        "podCount": (expected_claim.pod_count, len(claim["pods"])),
        "pool": (expected_claim.pool, claim["nodePool"]),
        "type": (expected_claim.type, offering["instanceType"]),
        "zone": (expected_claim.zone, offering["zone"]),
        "capacityType": (expected_claim.capacity_type, offering["capacityType"]),
        "typesInOrder": (expected_claim.types_in_order, list(claim["instanceTypes"])),
        "typeCount": (expected_claim.type_count, len(claim["instanceTypes"])),
        "types": (
            None if expected_claim.types is None else sorted(expected_claim.types),
            sorted(claim["instanceTypes"]),
        ),
    }
    for name, (requests, result) in names.items():
        if requests is not None and requests != result:
            yield f"{name} is {result}"
    if expected_claim.price is not None and abs(expected_claim.price - claim["price"]) > _NEARLY:
        yield f"price is {claim['price']}"
    if missing := sorted(set(expected_claim.types_include) - set(claim["instanceTypes"])):
        yield f"types lack {missing}"
    if extra := sorted(set(expected_claim.types_exclude) & set(claim["instanceTypes"])):
        yield f"types have {extra}"
    entries = [_entry(requirement) for requirement in claim["requirements"]]
    for text in expected_claim.requires:
        key, operator, values, least = _stated(text)
        if not any((key, operator, values) == entry[:3] and least in (None, entry[3]) for entry in entries):
            yield f"requirements lack {text!r}"
    for key in expected_claim.lacks:
        if any(key == entry[0] for entry in entries):
            yield f"requirements name {key}"
    for fragment in expected_claim.why:
        if fragment not in claim["why"]:
            yield f"why lacks {fragment!r}: {claim['why']}"
    if expected_claim.requests is not None:
        resources, have = parse_resources(expected_claim.requests), parse_resources(claim["requests"])
        if different := sorted(name for name, amount in resources.items() if have.get(name, 0) != amount):
            yield f"requests differ in {different}: {claim['requests']}"


def _entry(requirement: Entry) -> tuple[str, str, frozenset[str], int | None]:
    values = frozenset(requirement.get("values") or ())
    return requirement["key"], requirement["operator"], values, requirement.get("minValues")


def _stated(text: str) -> tuple[str, str, frozenset[str], int | None]:
    text, _, least = text.partition(" minValues ")
    key, operator, *values = text.split()
    return key, operator, frozenset(values), int(least) if least else None


def _places(expected: Expected, plan: Plan, value: _Input) -> Iterator[str]:
    if not (expected.together or expected.apart or expected.per_domain):
        return
    place = value.running | {
        pod: node["name"] for node in (*plan["nodeClaims"], *plan["existingNodes"]) for pod in node["pods"]
    }
    for group in expected.together:
        if len({place.get(pod, f"{pod} nowhere") for pod in group}) > 1:
            yield f"together: {_shown(group, place)}"
    for group in expected.apart:
        for item, other in combinations(group, 2):
            if item not in place or other not in place or place[item] == place[other]:
                yield f"apart: {_shown((item, other), place)}"
    domains = value.nodes | {claim["name"]: _settled(claim) for claim in plan["nodeClaims"]}
    for key, per_domain in expected.per_domain.items():
        pods = [pod for pod in place if fnmatchcase(pod, per_domain.pods)]
        result = [domains.get(place[pod], {}).get(key) for pod in pods]
        counts = sorted(Counter(domain for domain in result if domain is not None).values())
        if counts != per_domain.counts:
            observations = dict(zip(pods, result, strict=True))
            yield f"perDomain: {key}: expected {per_domain.counts}, got {counts}: {observations}"


def _shown(pods: Iterable[str], place: Mapping[str, str]) -> str:
    return ", ".join(f"{pod} is on {place.get(pod, 'no node')}" for pod in pods)


def _settled(claim: Entry) -> dict[str, str]:
    """The labels of a claim that have one value."""
    settled = {labels.HOSTNAME: claim["name"]}
    for requirement in claim["requirements"]:
        if requirement["operator"] == "In" and len(requirement["values"]) == 1:
            settled[requirement["key"]] = requirement["values"][0]
    return settled


@dataclass(frozen=True)
class _Input:
    """What of the manifests a plan is held against."""

    nodes: dict[str, dict[str, str]]
    """The labels of the nodes, by name."""
    running: dict[str, str]
    """Pods that have a node, with its name."""
    waiting: set[str]
    """Pods that the plan must have an answer for."""


def _input(manifests: str) -> _Input:
    result = _Input({}, {}, set())
    for body in yaml.load_all(manifests, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        for item in _items(body or {}):
            metadata, kind = item.get("metadata") or {}, item.get("kind")
            key = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
            if kind == "Node":
                result.nodes[metadata["name"]] = {labels.HOSTNAME: metadata["name"], **(metadata.get("labels") or {})}
            elif kind == "Pod" and (node := item["spec"].get("nodeName")):
                result.running[key] = node
            elif kind == "Pod":
                result.waiting.add(key)
            elif kind in ("Deployment", "ReplicaSet", "StatefulSet", "Job"):
                count = item["spec"].get("parallelism" if kind == "Job" else "replicas")
                result.waiting.update(f"{key}-{number}" for number in range(1 if count is None else count))
    return result


def _items(body: Entry) -> Iterator[Entry]:
    kind = str(body.get("kind"))
    if not kind.endswith("List"):
        yield body
    for item in body.get("items") or ():
        yield from _items({"kind": kind.removesuffix("List"), **item})
