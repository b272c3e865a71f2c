"""Turns an object's problems, also those that only the worker refuses, into findings with lines and corrections.

Names, labels and annotations have the API server's rules for every kind. Of kinds other than Karpenter's, only the
values of labels, annotations and node selectors are checked: a common mistake is ``karpenter.sh/do-not-disrupt: true``
without quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tenon.apis import labels
from tenon.apis.base import ApiModel, FaultKind
from tenon.apis.common import is_label_name, is_label_value
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.kubelet_types import settings_at
from tenon.apis.legacy.conversion import Converted
from tenon.apis.legacy.global_settings import convert_settings
from tenon.apis.legacy.kinds.closed import closed_reason
from tenon.apis.restricted import restricted_reason
from tenon.apis.validation import FieldError, name_faults, parse
from tenon.ec2.families.cluster import Cluster
from tenon.ec2.nodeclass.status import validate
from tenon.ec2.refusals.scopes import USER_DATA_TOO_LARGE
from tenon.manifests.autofix import Check, Fix, Known, find_fixes, fixed_line
from tenon.manifests.batch_conversion import convert_batch, is_older
from tenon.manifests.documents import Diagnostic, Item
from tenon.manifests.field_moves import moves_of, old_path
from tenon.manifests.kinds import MODELS
from tenon.manifests.paths import Path, has, path_of, text_of, value_at
from tenon.manifests.schemas import Schema, schema_of, unknown_fields, unknown_problem

KUBELET = ("spec", "kubelet")
_CLASS_NAME = ("spec", "template", "spec", "nodeClassRef", "name")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME_LENGTH = 253
_MAX_BYTES = 256 * 1024
_BUILT_IN = re.compile(r"v1|[a-z]+/v[0-9a-z]+")
"""apiVersions of pods and workloads, whose field names mean the same at every depth. Other groups are checked less."""
_OF_METADATA = ("labels", "annotations")
_SELECTORS = ("nodeSelector", "matchLabels")


def metadata_problems(body: Mapping[str, Any]) -> Iterator[FieldError]:
    """Return what the API server would refuse about an object's metadata, in addition to its model's checks."""
    metadata = body.get("metadata")
    if metadata is None:
        yield FieldError("metadata.name", "is required", FaultKind.MISSING)
    if not isinstance(metadata, dict):
        return
    name = metadata.get("name")
    if name in (None, "") and not metadata.get("generateName"):
        yield FieldError("metadata.name", "is required", FaultKind.MISSING)
    for field in ("name", "generateName"):
        metadata_value = metadata.get(field)
        text = metadata_value if isinstance(metadata_value, str) else ""
        stem = text.rstrip("-.") if field == "generateName" else text
        if stem and (len(stem) > _MAX_NAME_LENGTH or _NAME.fullmatch(stem) is None):
            sentence = "is not the name of an object: use lower case letters, digits, - and ."
            yield FieldError(f"metadata.{field}", f"{text[:80]!r} {sentence}", FaultKind.VALUE)
    for field in ("labels", "annotations"):
        metadata_value = metadata.get(field)
        for key, value in metadata_value.items() if isinstance(metadata_value, dict) else ():
            if not is_label_name(key if field == "labels" else key.lower()):  # as the API server does
                yield FieldError(f"metadata.{field}[{key}]", "is not a name: write name or domain/name")
            if field == "labels" and isinstance(value, str) and not is_label_value(value):
                yield FieldError(f"metadata.labels[{key}]", f"{value[:80]!r} is not a label value", FaultKind.VALUE)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and sum(len(f"{k}{v}".encode()) for k, v in annotations.items()) > _MAX_BYTES:
        yield FieldError("metadata.annotations", f"are more than {_MAX_BYTES // 1024} KiB together")


def refused_texts(body: Mapping[str, Any]) -> list[FieldError]:
    """Return a problem for each label, annotation and node selector value that is not a string."""
    return [
        FieldError(text_of((*path, key)), "is not a string" + (": put it in quotes" if _is_single(value) else ""))
        for path, entries in _of_texts(body)
        for key, value in entries.items()
        if not isinstance(value, str) and value is not None  # the API server reads null as an empty string
    ]


def _is_single(value: Any) -> bool:
    return not isinstance(value, (dict, list))


def _of_texts(body: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the mappings whose values must be strings."""
    waiting: list[tuple[Path, Any]] = [((), body)]
    if _BUILT_IN.fullmatch(str(body.get("apiVersion"))) is None:
        waiting = [(("metadata",), body.get("metadata"))]
    while waiting:
        path, value = waiting.pop()
        inner: list[tuple[Path, Any]] = []
        if isinstance(value, dict):
            for key, entry in value.items():
                child_path = (*path, key)
                if (path[-1:] == ("metadata",) and key in _OF_METADATA) or key in _SELECTORS:
                    if isinstance(entry, dict):
                        yield child_path, entry
                else:
                    inner.append((child_path, entry))
        elif isinstance(value, list):
            inner = [((*path, index), entry) for index, entry in enumerate(value)]
        waiting += reversed(inner)


_RESERVED = (FaultKind.RESERVED_LABELS, FaultKind.RESERVED_REQUIREMENTS)
_OWN = "is set from the NodePool's name and may not be given"
_IAM_NAME = re.compile(r"[A-Za-z0-9_+=,.@-]+")
_ANY_CLUSTER = Cluster(
    name="c", region="us-west-2", endpoint="https://c", ca_bundle="Q0E=", service_cidr="10.0.0.0/16", dns_ip="10.0.0.10"
)
"""A cluster whose part of the user data is short: what is too long for it is too long for every cluster."""


def findings_of(item: Item, converted: Converted | None) -> list[Diagnostic]:
    """Return everything that the API server or Karpenter would refuse about an object."""
    model = MODELS[item.kind, item.api_version]
    schema = schema_of(model)
    problems = [*refused(item.body, model), *refused_by_worker(item.body, converted)]
    if converted is not None and is_older(item.body):
        problems = _exact(item, [*problems, *problems_of_older(item, converted)])
    problems = list(dict.fromkeys(problems))
    unknown = {**dict(unknown_fields(item.body, schema)), **_unknown_kubelet_settings(item.body, problems)}
    return _with_fixes(item, problems, schema, unknown, lambda body: refused(body, model))


def _unknown_kubelet_settings(body: Mapping[str, Any], problems: Sequence[FieldError]) -> Known:
    """Return the place of each kubelet setting that the kubelet does not have, with those that it has there."""
    paths = [path_of(problem.path, body) for problem in problems if problem.kind is FaultKind.UNKNOWN_SETTING]
    return {path: settings_at(path[len(KUBELET) : -1]) for path in paths}


def findings_of_conversion(item: Item, converted: Converted) -> list[Diagnostic]:
    """Return the faults that prevent an older object's conversion to v1, with those of its metadata, which stays."""
    problems = list(dict.fromkeys([*metadata_problems(item.body), *problems_of_older(item, converted)]))

    def check(body: dict[str, Any]) -> list[FieldError]:
        alone = convert_batch([body])
        of_body = problems_of_older(Item(item.document, body, None), alone[0]) if alone else ()
        return [*metadata_problems(body), *of_body]

    return _with_fixes(item, problems, schema_of(MODELS[item.kind, item.api_version]), {}, check)


def findings_of_others(item: Item) -> list[Diagnostic]:
    """Return faults in an object of another kind, limited to the fields that Karpenter reads."""
    return _with_fixes(item, refused_texts(item.body), {}, {}, refused_texts)


def findings_of_settings(item: Item) -> list[Diagnostic]:
    """Return faults in a settings ConfigMap."""
    problems = convert_settings(item.body).problems
    return _with_fixes(item, problems, {}, {}, lambda body: convert_settings(body).problems)


def finding(item: Item, problem: FieldError, fixed: str | None = None) -> Diagnostic:
    """Build the finding for a problem, with its line."""
    path = path_of(problem.path, item.body)
    lines = (fixed,) if fixed else ()
    return Diagnostic(item.document.file, item.line_of(path), problem.path, problem.sentence, lines, item.subject)


def refused(body: Mapping[str, Any], model: type[ApiModel]) -> list[FieldError]:
    """Return what Karpenter, or the API server with kubectl's strict field validation, would refuse."""
    body = {name: value for name, value in body.items() if name != "status"}  # the API server ignores status
    problems = [unknown_problem(path, known_names) for path, known_names in unknown_fields(body, schema_of(model))]
    return list(dict.fromkeys([*problems, *metadata_problems(body), *by_label(body, parse(model, body)[1])]))


def _exact(item: Item, problems: Sequence[FieldError]) -> list[FieldError]:
    """Drop a problem if another one is about the same field or about a field inside it."""
    errors_by_path: dict[Path, FieldError] = {}
    for problem in problems:
        errors_by_path.setdefault(path_of(problem.path, item.body), problem)
    return [
        problem
        for path, problem in errors_by_path.items()
        if not any(path == other[: len(path)] and path != other for other in errors_by_path)
    ]


def _with_fixes(
    item: Item, problems: Sequence[FieldError], schema: Schema, unknown: Known, check: Check
) -> list[Diagnostic]:
    """Add corrected lines to the problems, and merge the problems of one list on one line."""
    fixes, solved = find_fixes(item, problems, schema, unknown, check)
    groups: dict[tuple[int, Path, str], list[FieldError]] = {}
    of_line: dict[int, list[Fix]] = {}
    for problem in problems:
        if problem in solved and problem not in fixes:
            continue
        path = path_of(problem.path, item.body)
        line = item.line_of(path)
        alone = not path or not isinstance(path[-1], int) or problem not in fixes
        groups.setdefault((line, path if alone else path[:-1], problem.sentence), []).append(problem)
        if problem in fixes:
            of_line.setdefault(line, []).append(fixes[problem])
    findings = []
    for (line, path, sentence), group in groups.items():
        fixed = fixed_line(item, of_line[line]) if any(problem in fixes for problem in group) else None
        findings.append(finding(item, group[0] if len(group) == 1 else FieldError(text_of(path), sentence), fixed))
    return findings


def problems_of_older(item: Item, converted: Converted) -> Iterator[FieldError]:
    """Yield the problems that v1's rules find in an older object, with its own paths instead of v1's."""
    yield from converted.problems
    for manifest in converted.manifests:
        checked_fields = {name: value for name, value in manifest.items() if name != "status"}
        _, problems = parse(MODELS[manifest["kind"], manifest["apiVersion"]], checked_fields)
        moves = moves_of(item.kind, item.api_version, manifest["kind"])
        for problem in problems:
            new_path = path_of(problem.path, manifest)
            if new_path == _CLASS_NAME and not item.name and has(item.body, ("spec", "provider")):
                # The class of an inline provider has the name of the Provisioner.
                yield FieldError("metadata.name", "is required", FaultKind.MISSING)
                continue
            path = old_path(new_path, moves)
            absent = 1 if problem.kind is FaultKind.MISSING else 0
            while path and not has(item.body, path[: len(path) - absent]):
                path = path[:-1]
            yield problem._replace(path=text_of(path))


def by_label(body: Mapping[str, Any], problems: Sequence[FieldError]) -> Iterator[FieldError]:
    """Yield the problems, with each general problem about labels replaced by one problem per label."""
    for problem in problems:
        exact = list(_by_key(body, problem))
        yield from exact or [problem]


def _by_key(body: Mapping[str, Any], problem: FieldError) -> Iterator[FieldError]:
    if problem.kind not in _RESERVED:
        return
    reason_of = closed_reason if str(body.get("apiVersion")).endswith("/v1beta1") else restricted_reason
    path = (*path_of(problem.path, body), problem.kind.value)
    if not has(body, path):
        return
    value = value_at(body, path)
    if problem.kind is FaultKind.RESERVED_LABELS:
        for key in value:
            if reason := _OWN if key == labels.NODEPOOL else reason_of(key):
                yield FieldError(f"{text_of(path)}[{key}]", reason)
        return
    for index, term in enumerate(value):
        if reason := reason_of(term["key"]):
            yield FieldError(f"{text_of((*path, index))}.key", reason)


def refused_by_worker(body: Mapping[str, Any], converted: Converted | None) -> Iterator[FieldError]:
    """Yield the problems of a NodePool or an EC2NodeClass, also of what an older object becomes."""
    kind, spec = body.get("kind"), body.get("spec")
    name = (body.get("metadata") or {}).get("name") if isinstance(body.get("metadata"), dict) else None
    if kind in ("Provisioner", "AWSNodeTemplate") and isinstance(name, str):
        yield from name_faults(name)
    if isinstance(spec, dict):
        yield from _identities(spec)
    manifests = converted.manifests if converted is not None else [body]
    for manifest in manifests:
        if manifest.get("kind") == "EC2NodeClass":
            yield from _user_data(manifest)


def _identities(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    for field, noun, longest in (("role", "role", 64), ("instanceProfile", "instance profile", 128)):
        value = spec.get(field)
        if isinstance(value, str) and value and (why := _no_name(value, noun, longest)):
            yield FieldError(f"spec.{field}", why)


def _no_name(value: str, noun: str, longest: int) -> str:
    """Why IAM has no role or instance profile of this name; empty if it may have one. A role may have its path."""
    parts = value.split("/")
    if value.startswith("arn:"):
        name = parts[1] if ":assumed-role/" in value and len(parts) > 1 else parts[-1]
        return f"is an ARN, where IAM takes the name of the {noun}: write {name[:80]}"
    if noun != "role" and len(parts) > 1:
        return f"has a path, where IAM takes the name of the {noun}: write {parts[-1][:80]}"
    if len(parts[-1]) > longest:
        return f"has {len(parts[-1])} characters, and the name of the {noun} has at most {longest} in IAM"
    if not _IAM_NAME.fullmatch(parts[-1]):
        return f"{value[:80]!r} is no name in IAM: use letters, digits and any of _+=,.@-"
    return ""


def _user_data(manifest: Mapping[str, Any]) -> Iterator[FieldError]:
    node_class, problems = parse(EC2NodeClass, {name: value for name, value in manifest.items() if name != "status"})
    if node_class is None or problems or not node_class.spec.user_data:
        return
    result = validate(node_class, _ANY_CLUSTER)
    if result.reason in ("UserDataInvalid", USER_DATA_TOO_LARGE):
        yield FieldError("spec.userData", result.message)
