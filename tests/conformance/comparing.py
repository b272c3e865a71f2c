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
        wanted = {name: sorted(pods) for name, pods in expected.existing.items() if pods}
        if existing != wanted:
            yield f"existing: expected {wanted}, got {existing}"
    yield from _unschedulable(expected.unschedulable, plan["unschedulable"])
    price = plan["totals"]["pricePerHour"]
    if expected.price_per_hour is not None and abs(price - expected.price_per_hour) > _NEARLY:
        yield f"pricePerHour: expected {expected.price_per_hour}, got {price}"
    bound = plan["totals"]["lowerBoundPricePerHour"]
    if expected.price_per_bound is not None and not 0 < price <= expected.price_per_bound * (bound or 0):
        yield f"pricePerBound: expected at most {expected.price_per_bound}, got {price} at a bound of {bound}"
    given = _input(manifests)
    yield from _answers(plan, given)
    yield from _places(expected, plan, given)


def _answers(plan: Plan, given: _Input) -> Iterator[str]:
    """Each pod that waits has exactly one answer."""
    answers = Counter(pod for node in (*plan["nodeClaims"], *plan["existingNodes"]) for pod in node["pods"])
    answers.update(entry["pod"] for entry in plan["unschedulable"])
    for pod in sorted(given.waiting - answers.keys()):
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
    faults = [[list(_claim_faults(wanted, claim)) for claim in claims] for wanted in expected]
    holder: dict[int, int] = {}

    def place(number: int, seen: set[int]) -> bool:
        for other, found in enumerate(faults[number]):
            if found or other in seen:
                continue
            seen.add(other)
            if other not in holder or place(holder[other], seen):
                holder[other] = number
                return True
        return False

    alone = [number for number in range(len(expected)) if not place(number, set())]
    for number in alone:
        stated = expected[number].model_dump(by_alias=True, exclude_unset=True)
        yield f"claims: no claim is left for {stated}"
        for other, claim in enumerate(claims):
            if other not in holder:
                yield f"  {claim['name']}: {'; '.join(faults[number][other])}"


def _claim_faults(wanted: ExpectedClaim, claim: Entry) -> Iterator[str]:
    offering = claim["offering"]
    named = {
        "pods": (None if wanted.pods is None else sorted(wanted.pods), sorted(claim["pods"])),
        "podCount": (wanted.pod_count, len(claim["pods"])),
        "pool": (wanted.pool, claim["nodePool"]),
        "type": (wanted.type, offering["instanceType"]),
        "zone": (wanted.zone, offering["zone"]),
        "capacityType": (wanted.capacity_type, offering["capacityType"]),
        "typesInOrder": (wanted.types_in_order, list(claim["instanceTypes"])),
        "typeCount": (wanted.type_count, len(claim["instanceTypes"])),
        "types": (None if wanted.types is None else sorted(wanted.types), sorted(claim["instanceTypes"])),
    }
    for name, (asked, got) in named.items():
        if asked is not None and asked != got:
            yield f"{name} is {got}"
    if wanted.price is not None and abs(wanted.price - claim["price"]) > _NEARLY:
        yield f"price is {claim['price']}"
    if missing := sorted(set(wanted.types_include) - set(claim["instanceTypes"])):
        yield f"types lack {missing}"
    if extra := sorted(set(wanted.types_exclude) & set(claim["instanceTypes"])):
        yield f"types have {extra}"
    entries = [_entry(requirement) for requirement in claim["requirements"]]
    for text in wanted.requires:
        key, operator, values, least = _stated(text)
        if not any((key, operator, values) == entry[:3] and least in (None, entry[3]) for entry in entries):
            yield f"requirements lack {text!r}"
    for key in wanted.lacks:
        if any(key == entry[0] for entry in entries):
            yield f"requirements name {key}"
    for fragment in wanted.why:
        if fragment not in claim["why"]:
            yield f"why lacks {fragment!r}: {claim['why']}"
    if wanted.requests is not None:
        stated, have = parse_resources(wanted.requests), parse_resources(claim["requests"])
        if different := sorted(name for name, amount in stated.items() if have.get(name, 0) != amount):
            yield f"requests differ in {different}: {claim['requests']}"


def _entry(requirement: Entry) -> tuple[str, str, frozenset[str], int | None]:
    values = frozenset(requirement.get("values") or ())
    return requirement["key"], requirement["operator"], values, requirement.get("minValues")


def _stated(text: str) -> tuple[str, str, frozenset[str], int | None]:
    text, _, least = text.partition(" minValues ")
    key, operator, *values = text.split()
    return key, operator, frozenset(values), int(least) if least else None


def _places(expected: Expected, plan: Plan, given: _Input) -> Iterator[str]:
    if not (expected.together or expected.apart or expected.per_domain):
        return
    place = given.running | {
        pod: node["name"] for node in (*plan["nodeClaims"], *plan["existingNodes"]) for pod in node["pods"]
    }
    for group in expected.together:
        if len({place.get(pod, f"{pod} nowhere") for pod in group}) > 1:
            yield f"together: {_shown(group, place)}"
    for group in expected.apart:
        for one, other in combinations(group, 2):
            if one not in place or other not in place or place[one] == place[other]:
                yield f"apart: {_shown((one, other), place)}"
    domains = given.nodes | {claim["name"]: _settled(claim) for claim in plan["nodeClaims"]}
    for key, wanted in expected.per_domain.items():
        pods = [pod for pod in place if fnmatchcase(pod, wanted.pods)]
        found = [domains.get(place[pod], {}).get(key) for pod in pods]
        counts = sorted(Counter(domain for domain in found if domain is not None).values())
        if counts != wanted.counts:
            seen = dict(zip(pods, found, strict=True))
            yield f"perDomain: {key}: expected {wanted.counts}, got {counts}: {seen}"


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
    found = _Input({}, {}, set())
    for body in yaml.load_all(manifests, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        for item in _items(body or {}):
            metadata, kind = item.get("metadata") or {}, item.get("kind")
            key = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
            if kind == "Node":
                found.nodes[metadata["name"]] = {labels.HOSTNAME: metadata["name"], **(metadata.get("labels") or {})}
            elif kind == "Pod" and (node := item["spec"].get("nodeName")):
                found.running[key] = node
            elif kind == "Pod":
                found.waiting.add(key)
            elif kind in ("Deployment", "ReplicaSet", "StatefulSet", "Job"):
                count = item["spec"].get("parallelism" if kind == "Job" else "replicas")
                found.waiting.update(f"{key}-{number}" for number in range(1 if count is None else count))
    return found


def _items(body: Entry) -> Iterator[Entry]:
    kind = str(body.get("kind"))
    if not kind.endswith("List"):
        yield body
    for item in body.get("items") or ():
        yield from _items({"kind": kind.removesuffix("List"), **item})
