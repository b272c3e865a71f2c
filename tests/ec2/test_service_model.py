"""The descriptions of AWS services that the worker's clients keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import botocore.session
import pytest
from botocore.loaders import Loader

from activities.ec2.client import Ec2
from activities.ec2.service_model import OPERATIONS, SERVICES, ServiceModelLoader
from tests.sandbox.ec2.conftest import make_client

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


def shapes_of(shape: Any, result: dict[str, tuple[str, list[str]]]) -> dict[str, tuple[str, list[str]]]:
    """Every shape that this one refers to: its type and the names of its members."""
    if shape is None or shape.name in result:
        return result
    members = getattr(shape, "members", {})
    result[shape.name] = (shape.type_name, sorted(members))
    for part in (*members.values(), *(getattr(shape, name, None) for name in ("member", "key", "value"))):
        shapes_of(part, result)
    return result


@pytest.mark.parametrize("service", OPERATIONS)
def test_a_client_keeps_only_the_operations_that_tenon_calls(clients: Ec2, server: Server, service: str) -> None:
    """The rest would take memory in each process. What is kept is complete."""
    every = make_client(server.endpoint, service, "us-west-2").meta.service_model
    service_model = getattr(clients, service.replace("-", "_")).meta.service_model
    assert set(service_model.operation_names) == OPERATIONS[service]
    assert len(service_model.shape_names) < len(every.shape_names) / 2, "Savings Plans has few operations in all"
    for name in OPERATIONS[service]:
        for part in ("input_shape", "output_shape"):
            own, full = (getattr(model.operation_model(name), part) for model in (service_model, every))
            assert shapes_of(own, {}) == shapes_of(full, {}), (name, part)
        assert [error_shape.name for error_shape in service_model.operation_model(name).error_shapes] == [
            error_shape.name for error_shape in every.operation_model(name).error_shapes
        ]


def test_what_is_kept_has_no_sentences_for_people() -> None:
    """The sentences about EC2 alone are two megabytes."""
    loader = ServiceModelLoader()
    models = {service: loader.load_service_model(service, "service-2") for service in OPERATIONS}
    assert [path for path, value in _entries(models) if path[-1] == "documentation" and isinstance(value, str)] == []
    assert models["eks"]["metadata"]["serviceId"] == "EKS"


def _entries(part: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in part.items() if isinstance(part, dict) else ():
        yield (*path, key), value
        yield from _entries(value, *path, key)


def _endpoints(loader: Loader | None) -> dict[tuple[str, str], str]:
    """The address that botocore chooses for each service in regions of four partitions."""
    session: Any = botocore.session.get_session()
    if loader is not None:
        session.register_component("data_loader", loader)
    session.set_credentials("test", "test")
    return {
        (service, region): session.create_client(service, region_name=region).meta.endpoint_url
        for service in sorted(SERVICES)
        for region in ("us-west-2", "eu-central-1", "cn-north-1", "us-gov-west-1", "us-iso-east-1")
    }


def test_each_service_has_the_address_that_botocore_knows() -> None:
    assert _endpoints(ServiceModelLoader()) == _endpoints(None)
