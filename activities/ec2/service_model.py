"""Reads only what Tenon calls from botocore's descriptions of AWS services.

botocore describes more than 800 operations of EC2, hundreds of IAM and Systems Manager, and where each of 300 services
is in each region. Each process would keep all of that in memory, and what is freed leaves holes. So a file is first
split into its parts as text, and only the parts that are kept become objects, without the sentences for people.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from botocore.loaders import JSONFileLoader, Loader

OPERATIONS = {
    "ec2": frozenset(
        {
            "CreateFleet",
            "CreateLaunchTemplate",
            "CreateTags",
            "DeleteLaunchTemplate",
            "DescribeCapacityReservations",
            "DescribeFleets",
            "DescribeImages",
            "DescribeInstances",
            "DescribeInstanceStatus",
            "DescribeInstanceTypeOfferings",
            "DescribeInstanceTypes",
            "DescribeLaunchTemplates",
            "DescribePlacementGroups",
            "DescribeReservedInstances",
            "DescribeSecurityGroups",
            "DescribeSpotPriceHistory",
            "DescribeSubnets",
            "GetConsoleOutput",
            "GetSpotPlacementScores",
            "RebootInstances",
            "RunInstances",
            "StartInstances",
            "StopInstances",
            "TerminateInstances",
        }
    ),
    "eks": frozenset({"DescribeAccessEntry", "DescribeCluster"}),
    "iam": frozenset(
        {
            "AddRoleToInstanceProfile",
            "CreateInstanceProfile",
            "DeleteInstanceProfile",
            "GetInstanceProfile",
            "GetRole",
            "ListInstanceProfiles",
            "RemoveRoleFromInstanceProfile",
        }
    ),
    "savingsplans": frozenset({"DescribeSavingsPlanRates", "DescribeSavingsPlans"}),
    "service-quotas": frozenset({"ListServiceQuotas"}),
    "ssm": frozenset({"GetParameter"}),
}
"""The methods that the client of a service has. Clients of other services have all."""


SERVICES = frozenset({*OPERATIONS, "arc-zonal-shift", "pricing", "s3", "sqs", "sts"})
"""The services whose endpoints are kept. For others, botocore makes the usual address from service and region."""


Parts = Mapping[str, msgspec.Raw]
"""The members of a JSON object by name, each as its text."""
APART = ("operations", "shapes", "documentation")
"""The parts of a service's description that are not read as they are."""
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Files(JSONFileLoader):
    """Reads the files of botocore."""

    def load_file(self, file_path: str) -> Any:
        """Read a file, whose path comes without its suffix, or return None if there is none."""
        text = _read(file_path)
        if text is None:
            return None
        *_, service, _version, name = ("", "", *Path(file_path).parts)
        if name == "endpoints":
            return _endpoints(text)
        if name == "service-2":
            return _service(text, OPERATIONS.get(service))
        return msgspec.json.decode(text)


class ServiceModelLoader(Loader):
    """Loads the descriptions of AWS services."""

    FILE_LOADER_CLASS = _Files


def _read(path: str) -> bytes | None:
    if (plain := Path(f"{path}.json")).is_file():
        return plain.read_bytes()
    packed = Path(f"{path}.json.gz")
    return gzip.decompress(packed.read_bytes()) if packed.is_file() else None


def _endpoints(text: bytes) -> Any:
    document = {name: msgspec.json.decode(part) for name, part in _parts(text).items() if name != "partitions"}
    partitions = msgspec.json.decode(_parts(text)["partitions"], type=list[dict[str, msgspec.Raw]])
    return document | {"partitions": [_partition(partition) for partition in partitions]}


def _partition(partition: Parts) -> dict[str, Any]:
    services = _parts(partition["services"])
    used_services = {name: msgspec.json.decode(services[name]) for name in services if name in SERVICES}
    rest = {name: msgspec.json.decode(part) for name, part in partition.items() if name != "services"}
    return rest | {"services": used_services}


def _service(text: bytes, operation_names: Iterable[str] | None) -> dict[str, Any]:
    """Read the description of a service. ``operation_names``: those to keep; None for all."""
    parts = _parts(text)
    operations, shapes = _parts(parts["operations"]), _parts(parts["shapes"])
    names = operations if operation_names is None else operation_names
    operation_by_name = {name: _object(operations[name]) for name in names}
    rest = {name: msgspec.json.decode(part) for name, part in parts.items() if name not in APART}
    return rest | {"operations": operation_by_name, "shapes": _shapes(operation_by_name.values(), shapes)}


def _shapes(operations: Iterable[Mapping[str, Any]], shapes: Parts) -> dict[str, Any]:
    """The shapes that the operations refer to, directly or through other shapes, in the order of the file."""
    shape_by_name: dict[str, Any] = {}
    pending_names = [
        reference["shape"]
        for operation in operations
        for reference in (operation.get("input"), operation.get("output"), *operation.get("errors", ()))
        if reference
    ]
    while pending_names:
        name = pending_names.pop()
        if name in shape_by_name:
            continue
        shape_by_name[name] = shape = _object(shapes[name])
        parts = (shape.get("member"), shape.get("key"), shape.get("value"), *shape.get("members", {}).values())
        pending_names += [part["shape"] for part in parts if part]
    return {name: shape_by_name[name] for name in shapes if name in shape_by_name}


def _object(part: msgspec.Raw) -> Any:
    return _without_sentences(msgspec.json.decode(part))


def _without_sentences(part: Any) -> Any:
    """Leave documentation out. A member of a shape may have that name too, but is not a text."""
    if isinstance(part, dict):
        return {
            key: _without_sentences(value)
            for key, value in part.items()
            if not (key == "documentation" and isinstance(value, str))
        }
    return [_without_sentences(item) for item in part] if isinstance(part, list) else part
