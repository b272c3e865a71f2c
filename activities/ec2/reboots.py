"""Asks EC2 to reboot one instance, and says whether it will, may later, never will, or whether no one knows.

EC2 has no client token for reboots. So a call is sent once, by a client that does not retry, and an answer that was
lost is a result of its own: the workflow then watches the machine before it asks again.
"""

from __future__ import annotations

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError

from activities.ec2.client import Ec2
from activities.ec2.errors import NO_CONNECTION, NO_CREDENTIALS, CallStoppedError, EC2Error, ThrottledError, translated
from tenon.ec2.refusals import errors as codes
from tenon.messages.reboot import RebootOutcome, RebootReply

_UNSENT = (ConnectTimeoutError, EndpointConnectionError)
"""Errors of a call that did not reach AWS."""


def reboot_instance(clients: Ec2, instance_id: str) -> RebootReply:
    """Send RebootInstances once. It raises nothing that AWS answers (N15-171)."""
    try:
        with translated("RebootInstances"):
            clients.ec2_without_retries.reboot_instances(InstanceIds=[instance_id])
    except EC2Error as error:
        return RebootReply(outcome=_outcome(error), message=error.explained)
    return RebootReply(outcome=RebootOutcome.ACCEPTED)


def _outcome(error: EC2Error) -> RebootOutcome:
    if error.not_found or error.unauthorized:
        return RebootOutcome.REJECTED
    if isinstance(error, (ThrottledError, CallStoppedError)) or error.code == NO_CREDENTIALS:
        return RebootOutcome.REFUSED
    if error.code == NO_CONNECTION:
        return RebootOutcome.REFUSED if isinstance(error.__cause__, _UNSENT) else RebootOutcome.UNKNOWN
    # EC2 may have done what it answers with a fault of its own, such as InternalError.
    return RebootOutcome.UNKNOWN if error.retryable or error.code in codes.RETRYABLE else RebootOutcome.REFUSED
