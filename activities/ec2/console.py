"""What an instance has written to its console, which says why a node did not join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import GetConsoleOutputResultTypeDef

NO_LATEST = "UnsupportedOperation"
"""EC2's code for instance types that show only the output of their last start."""


def console_output(clients: Ec2, instance_id: str) -> str:
    """The latest console output of an instance; empty if EC2 has none yet.

    Raises:
        EC2Error: the call failed.
    """
    try:
        answer = _ask(clients, instance_id, latest=True)
    except EC2Error as error:
        if error.code != NO_LATEST:
            raise
        answer = _ask(clients, instance_id, latest=False)
    return answer.get("Output", "")  # decoded by botocore


def _ask(clients: Ec2, instance_id: str, *, latest: bool) -> GetConsoleOutputResultTypeDef:
    with translated("GetConsoleOutput"):
        return clients.ec2.get_console_output(InstanceId=instance_id, Latest=latest)
