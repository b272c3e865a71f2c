"""Prepares moto: the sandbox's images, the overridden EC2 actions, and performance patches.

Everything here depends on internals of one pinned version of moto. The contract tests show when that breaks.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from sandbox.ec2.images import images
from sandbox.ec2.region import REGION, ZONES
from sandbox.ec2.world import World


def prepare(state: Path, world: World) -> Callable[..., Iterable[bytes]]:
    """The mock as a WSGI application, with ``world`` behind its EC2 actions."""
    records = [image.record() for image in images()]
    path = state / "images.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    os.environ["MOTO_AMIS_PATH"] = str(path)  # read when the module is first imported, and checked again later

    import moto.core.responses
    import moto.ec2.models.amis
    import moto.ec2.urls
    from moto.core.parse import EC2QueryParser
    from moto.ec2.models.core import TaggedEC2Resource
    from moto.ec2.models.subnets import Subnet
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.sqs.models import SQSBackend

    from sandbox.ec2 import catalogue
    from sandbox.ec2.responses import SandboxEC2

    moto.ec2.models.amis.AMIS = records
    catalogue.complete(REGION, ZONES)
    SandboxEC2.world = world
    moto.ec2.urls.url_paths["{0}/"] = SandboxEC2.dispatch
    TaggedEC2Resource.get_tags = _own_tags
    Subnet.get_available_subnet_ip = _next_address
    SQSBackend.is_message_valid_based_on_retention_period = _is_retained
    EC2QueryParser._do_parse = _parse_form
    EC2QueryParser._gonna_recurse = _says_nothing
    names = moto.core.responses.method_names_from_class
    moto.core.responses.method_names_from_class = functools.cache(names)  # it lists the class again for each call
    application: Callable[..., Iterable[bytes]] = DomainDispatcherApplication(create_backend_app)
    return application


def _own_tags(resource: Any) -> list[dict[str, str]]:
    """A resource's tags, looked up by ID. The mock's own method matches every tag of the account against a pattern."""
    tags = resource.ec2_backend.tags.get(resource.id) or {}
    return [
        {"resource_id": resource.id, "resource_type": "", "key": key, "value": value} for key, value in tags.items()
    ]


def _next_address(subnet: Any, instance: Any) -> str:
    """The next address, which was never used before if possible.

    The address is the node's name, and an earlier Node of that name may still be terminating. The mock would reuse a
    freed address immediately.
    """
    for fresh in subnet._subnet_ip_generator:
        address = str(fresh)
        if fresh != subnet.cidr.broadcast_address and address not in subnet._subnet_ips:
            break
    else:
        address = str(subnet._unused_ips.pop())
    subnet._subnet_ips[address] = instance
    return address


def _is_retained(backend: Any, queue_name: str, message: Any) -> bool:
    """Whether the queue still keeps a message. The mock counts all messages of the queue for each message that it
    delivers, to report the counts among the queue's attributes.
    """
    seconds = int(backend.get_queue(queue_name).message_retention_period)
    return bool(message.sent_timestamp / 1000 + seconds > time.time())


class _Form(dict[str, Any]):
    """A call's parameters, and all prefixes of their names."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values.items())
        self.parts: set[str] = set()
        for name in self:
            end = len(name)
            while end > 0 and name[:end] not in self.parts:
                self.parts.add(name[:end])
                end = name.rfind(".", 0, end)


def _parse_form(parser: Any, request: Mapping[str, Any], shape: Any) -> Any:
    parsed = parser._parse_shape(shape, _Form(request["values"]))
    return parsed if isinstance(parsed, dict) else {}


def _says_nothing(_parser: Any, form: _Form, prefix: str) -> bool:
    """Whether no parameter's name has ``prefix`` as its first parts.

    The mock searches all parameters for each structure, which is quadratic in the length of a fleet request and was
    most of the cost of a burst of launches.
    """
    return prefix != "" and prefix not in form.parts


def empty() -> None:
    """Clear everything in the mock."""
    from moto.core.base_backend import BackendDict
    from moto.ec2.models import ec2_backends
    from moto.eks.models import eks_backends
    from moto.iam.models import iam_backends
    from moto.sqs.models import sqs_backends
    from moto.ssm.models import ssm_backends

    BackendDict.reset()
    # A reset of Auto Scaling ends its instances, which creates EC2's account again. moto's own list then lacks EC2.
    services: list[BackendDict] = [ec2_backends, eks_backends, iam_backends, sqs_backends, ssm_backends]
    for service in services:
        service.clear()
