"""Python says of a manifest what the API server says: one is what `tenon validate` tells, the other what users meet.

Every case is sent to a real API server, as `kubectl create --dry-run=server` does with strict validation.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, NotFoundError, TooManyRequestsError
from activities.kubernetes.resources import CRDS as CUSTOM_RESOURCES
from sandbox.cluster import Sandbox
from tenon.apis.base import ApiModel
from tenon.apis.crd import custom_resource_definitions
from tenon.manifests.findings import refused
from tests.tenon.apis.cases import CASES
from tests.tenon.apis.verdicts.broken import BROKEN, METADATA
from tests.tenon.apis.verdicts.full import FULL, Full
from tests.tenon.apis.verdicts.mutations import mutations
from tests.workflows.waiting import until

TEST_GROUP = "verdicts.tenon.sh"
"""The older versions are tried in a group of their own, where they are stored: no webhook has to convert them."""
AT_ONCE = 8
"""Questions at a time. More are not faster, and on a busy machine so many TLS handshakes take more than ten seconds."""
FORBIDDEN = ".registerWithTaints"
"""A field that stands in no good manifest."""
CRDS = custom_resource_definitions()
CHECKED = custom_resource_definitions(checked_by_tenon=True)
"""With what the API server does not check and Tenon does: cases are made for that too."""
DELIBERATE: dict[str, str] = {
    "known capacity type": "NP-V8: known values are counted when the worker reads the pool, which then is not Ready",
    r"^(a class: spec\.kubelet\.|class: (kubelet|podsPerCore) )": (
        "EC-13: upstream's API server stores any kubelet settings, which must stay updatable; the class is not Ready"
    ),
    r"pool: (value (of 64|with a blank|in typographic quotes)|taint twice|limits negative|(label )?key of 64)": (
        "upstream's API server stores them, and a stored object must stay updatable; the NodePool then is not ready"
    ),
    r"requirements\.\d+\.values\.\d+ =": "the same, for every text that is no label value",
    r"limits\.[^ ]+ = '?-": "the same, for every negative limit",
    r"spec\.(taints|startupTaints) = \[": "the same, for a taint that stands there twice",
    r"requirements\.\d+\.key = 'a+": "the same, for the keys of requirements",
    r"labels\.k{64} =": "the same, for the keys of labels",
    r"a policy of a ladder: spec\.faults = \[": (
        "that two faults name the same condition, status and reason is too expensive for a rule of the API server; the "
        "policy repairs nothing then"
    ),
    r"a rollout: spec\.windows\.0\.(timezone|schedule) =|a rollout: spec\.windows\.0\.duration = '0": (
        "only a program knows which time zones exist and whether a window can open; the rollout is not valid then"
    ),
    r"a freeze of some nights: spec\.(windows\.0|calendar)\.timezone =": (
        "the same, for time zones; it holds without an end then"
    ),
    r"a rollout: spec\.gates\.prometheus\.0\.(min|max) =": "which of two texts is the greater number, the same",
    r"a schedule of working hours: spec\.(timeZone|bootTime) =": (
        "the API server knows no time zones, and compares no durations here; `tenon schedule` and `tenon validate` "
        "name the problem"
    ),
    "metadata: a name of 253": "an object's name cannot change, so one that is stored says so in ValidationSucceeded",
}
"""Differences that stay: a pattern for the names of the cases, and the reason."""


@dataclass(frozen=True)
class Question:
    """A manifest, and where it would be created."""

    name: str
    model: type[ApiModel]
    manifest: dict[str, Any]
    path: str


def definition(full: Full, definitions: dict[str, Any] = CRDS) -> tuple[dict[str, Any], dict[str, Any]]:
    """The CRD of a kind and the one version of it that is meant."""
    group, _, version = full.api_version.partition("/")
    crd = definitions[f"{group}_{full.plural}.yaml"]
    return crd, next(result for result in crd["spec"]["versions"] if result["name"] == version)


def in_test_group(full: Full) -> dict[str, Any] | None:
    """The CRD of an older version as one of its own; None where the version is the stored one."""
    crd, version = definition(full)
    if version["storage"]:
        return None
    output = copy.deepcopy(crd)
    output["metadata"]["name"] = f"{full.plural}.{TEST_GROUP}"
    output["spec"] |= {"group": TEST_GROUP, "versions": [version | {"storage": True}]}
    del output["spec"]["conversion"]
    output["spec"]["names"].pop("shortNames", None)
    return output


def fields_of(schema: dict[str, Any], path: str = "") -> set[str]:
    result = set()
    for name, inner in schema.get("properties", {}).items():
        result |= {f"{path}.{name}", *fields_of(inner, f"{path}.{name}")}
    return result | (fields_of(schema["items"], path) if "items" in schema else set())


def paths_in(value: Any, path: str = "") -> set[str]:
    if isinstance(value, list):
        return {name for item in value for name in paths_in(item, path)}
    if not isinstance(value, dict):
        return set()
    return {text for name, item in value.items() for text in (f"{path}.{name}", *paths_in(item, f"{path}.{name}"))}


def path_of(full: Full) -> str:
    group, _, version = full.api_version.partition("/")
    if in_test_group(full):
        group = TEST_GROUP
    within = f"/namespaces/{full.namespace}" if full.namespace else ""
    return f"/apis/{group}/{version}{within}/{full.plural}"


def questions() -> dict[str, Question]:
    return {question.name: question for question in _questions()}


def _questions() -> Iterator[Question]:
    paths = {full.model: path_of(full) for full in FULL}
    names: set[str] = set()
    for full in FULL:
        yield Question(full.title, full.model, full.manifest, path_of(full))
        schema = definition(full, CHECKED)[1]["schema"]["openAPIV3Schema"]
        for name, manifest in mutations(schema, full.manifest, names):
            yield Question(f"{full.title}: {name}", full.model, manifest, path_of(full))
    for case in CASES:
        yield Question(str(case), case.model, case.manifest, paths[case.model])
    for broken in BROKEN:
        full = next(full for full in FULL if full.title == broken.base)
        yield Question(f"{full.title}: {broken.name}", full.model, broken.made_from(full.manifest), path_of(full))
    pool = FULL[0]
    for name, metadata in METADATA.items():
        yield Question(f"metadata: {name}", pool.model, pool.manifest | {"metadata": metadata}, path_of(pool))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def refusals(sandbox: Sandbox) -> AsyncIterator[dict[str, str]]:
    """What the API server says of each question by its name; empty where it accepts."""
    kube = await Kube.connect(str(sandbox.kubeconfig), qps=100_000, burst=100_000)
    crds = {crd["metadata"]["name"]: crd for full in FULL if (crd := in_test_group(full))}
    try:
        for crd in crds.values():
            await kube.create(CUSTOM_RESOURCES, crd)
        await until(partial(_all_served, kube, crds))
        requests, room = questions(), asyncio.Semaphore(AT_ONCE)
        refusals = await asyncio.gather(*(_refusal(kube, question, room) for question in requests.values()))
        yield dict(zip(requests, refusals, strict=True))
    finally:
        for name in crds:
            await kube.delete(CUSTOM_RESOURCES, name)
        await kube.close()


async def _refusal(kube: Kube, question: Question, room: asyncio.Semaphore) -> str:
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    async with room:
        body = as_kubectl_sends(question.manifest)  # only now: all bodies at once would hold the first connections up
        if f"/{TEST_GROUP}/" in question.path:
            body["apiVersion"] = f"{TEST_GROUP}/v1beta1"
        try:
            await kube.request("POST", question.path, query=query, body=body)
        except ApiError as error:
            if error.status not in (400, 422):
                raise
            return error.message
    return ""


def as_kubectl_sends(value: Any) -> Any:
    """kubectl turns YAML into JSON, where 5.0 becomes 5."""
    if isinstance(value, dict):
        return {name: as_kubectl_sends(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_kubectl_sends(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


async def _all_served(kube: Kube, output: dict[str, Any]) -> bool:
    try:
        for crd in output.values():
            await kube.request("GET", f"/apis/{TEST_GROUP}/v1beta1/{crd['spec']['names']['plural']}")
    except (NotFoundError, TooManyRequestsError):
        return False
    return True


async def test_models_and_api_server_agree(refusals: dict[str, str]) -> None:
    """NP-01..25, NP-V2..V5, NC-01, NC-08, EC-01..23, NO-01..05, CB-01..03, V1B-01, V1B-18, LEG-01..11, LEG-30..39."""
    result, survivors = [], set()
    for question in questions().values():
        refusal, problems = refusals[question.name], refused(question.manifest, question.model)
        if bool(refusal) == bool(problems):
            continue
        if reasons := [pattern for pattern in DELIBERATE if re.search(pattern, question.name)]:
            survivors.update(reasons)
            continue
        ours = "; ".join(map(str, problems)) or "accepts"
        result.append(f"{question.name}\n    Python: {ours[:200]}\n    API server: {refusal[:300] or 'accepts'}")
    assert not result, f"{len(result)} of {len(refusals)} differ:\n" + "\n".join(result)
    assert survivors == set(DELIBERATE)


async def test_there_are_enough_questions_of_both_kinds(refusals: dict[str, str]) -> None:
    refused = sum(bool(refusal) for refusal in refusals.values())
    assert refused > 1000
    assert len(refusals) - refused > 300


async def test_full_manifests_are_accepted_and_complete(refusals: dict[str, str]) -> None:
    """What the cases are made from has every field that there is."""
    for full in FULL:
        assert refusals[full.title] == ""
    for model in {full.model for full in FULL}:
        ours = [full for full in FULL if full.model is model]
        schema = definition(ours[0])[1]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        missing = fields_of(schema) - {path for full in ours for path in paths_in(full.spec)}
        forbidden = {path for path in missing if path.endswith(FORBIDDEN)}
        assert missing == forbidden, f"{model.__name__} of {ours[0].api_version}: {missing - forbidden}"
