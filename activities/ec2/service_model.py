"""Keeps only what Tenon calls in botocore's descriptions of AWS services.

botocore describes more than 800 operations of EC2, hundreds of IAM and Systems Manager, and where each of 300 services
is in each region. Each process would keep all of that in memory. The rest is freed once it is parsed, and the process
uses that memory again: about 11 MB for EC2, 8 MB for the other services and 7 MB for the regions.
"""

from __future__ import annotations

from typing import Any

from botocore.loaders import Loader

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
            "DescribeSecurityGroups",
            "DescribeSpotPriceHistory",
            "DescribeSubnets",
            "GetConsoleOutput",
            "RebootInstances",
            "RunInstances",
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
    "ssm": frozenset({"GetParameter"}),
}
"""The methods that the client of a service has. Clients of other services have all."""


SERVICES = frozenset({*OPERATIONS, "arc-zonal-shift", "pricing", "s3", "sqs", "sts"})
"""The services whose endpoints are kept. For others, botocore makes the usual address from service and region."""


class ServiceModelLoader(Loader):
    """Loads the descriptions of AWS services."""

    def load_data(self, name: str) -> Any:
        """Load a file of botocore. The base class keeps the object in a cache, so this one changes the object."""
        document = super().load_data(name)
        if name == "endpoints":
            for partition in document["partitions"]:
                services = partition["services"]
                partition["services"] = {name: services[name] for name in SERVICES if name in services}
        return document

    def load_service_model(self, service_name: str, type_name: str, api_version: str | None = None) -> Any:
        """Load one description. The base class keeps the object in a cache, so this one changes the object."""
        model = super().load_service_model(service_name, type_name, api_version)
        if type_name == "service-2" and (operations := OPERATIONS.get(service_name)):
            model["operations"] = {name: model["operations"][name] for name in operations}
            model["shapes"] = {name: model["shapes"][name] for name in _shapes(model)}
        return model


def _shapes(model: dict[str, Any]) -> set[str]:
    """The names of the shapes that the operations refer to, directly or through other shapes."""
    shape_names: set[str] = set()
    pending_names = [
        reference["shape"]
        for operation in model["operations"].values()
        for reference in (operation.get("input"), operation.get("output"), *operation.get("errors", ()))
        if reference
    ]
    while pending_names:
        name = pending_names.pop()
        if name in shape_names:
            continue
        shape_names.add(name)
        shape = model["shapes"][name]
        parts = (shape.get("member"), shape.get("key"), shape.get("value"), *shape.get("members", {}).values())
        pending_names += [part["shape"] for part in parts if part]
    return shape_names
