"""The sandbox reads a call's parameters by a shorter way than the mock: what it reads must be the same."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.session import Session
from moto.core.model import ServiceModel
from moto.core.parse import EC2QueryParser, QueryParser
from werkzeug.datastructures import MultiDict

from tests.sandbox.ec2.conftest import Aws

pytestmark = pytest.mark.integration

FLEET = {
    "Type": "instant",
    "ClientToken": "t",
    **{
        f"LaunchTemplateConfigs.{config}.Overrides.{row}.{name}": value
        for config in (1, 2)
        for row in range(1, 13)  # row 1 is a beginning of rows 10 to 12
        for name, value in (("InstanceType", f"m7g.{row}"), ("SubnetId", "subnet-1"), ("Priority", "1.5"))
    },
    "LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName": "a",
    "TargetCapacitySpecification.TotalTargetCapacity": "1",
    "TagSpecification.1.ResourceType": "instance",
    "TagSpecification.1.Tag.1.Key": "k",
    "TagSpecification.1.Tag.1.Value": "",
}
GAP = {"LaunchTemplateConfigs.1.Overrides.10.InstanceType": "m7g.large", "LaunchTemplateConfigs.10.Overrides": ""}


class MocksOwn(EC2QueryParser):  # type: ignore[misc]
    """The parser as the mock has it."""

    _do_parse = QueryParser._do_parse
    _gonna_recurse = QueryParser._gonna_recurse


@pytest.mark.parametrize("form", [FLEET, GAP, {"DryRun": "true"}, {}])
def test_a_call_is_read_as_the_mock_reads_it(aws: Aws, form: dict[str, Any]) -> None:
    """``aws`` has prepared the mock."""
    assert EC2QueryParser._gonna_recurse is not QueryParser._gonna_recurse
    model = ServiceModel(Session().get_component("data_loader").load_service_model("ec2", "service-2"))
    operation = model.operation_model("CreateFleet")
    request = {"values": MultiDict(form)}
    assert EC2QueryParser(operation).parse(request) == MocksOwn(operation).parse(request)
