"""Error responses in the format that each AWS service's clients understand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import uuid4
from xml.sax.saxutils import escape

from sandbox.ec2.authorization.judge import Refusal

JSON_SERVICES = frozenset(
    {"ssm", "pricing", "eks", "sqs", "events", "logs", "kms", "arc-zonal-shift", "savingsplans", "servicequotas"}
)
REST_SERVICES = frozenset({"eks", "arc-zonal-shift", "savingsplans"})
"""Those of the JSON services that refuse a call with status 403. The others do so with 400."""

SERVER_ERRORS = frozenset({"InsufficientInstanceCapacity"})
"""Codes that EC2 answers with status 500. The mock answers each of its errors with 400."""


@dataclass(frozen=True)
class Answer:
    """A complete HTTP response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def reason(self) -> str:
        """The status line's text."""
        return f"{self.status} {'OK' if self.status < 400 else 'Error'}"


def json_answer(status: int, content: object, content_type: str = "application/json") -> Answer:
    """A response with a JSON body."""
    return Answer(status, [("Content-Type", content_type)], json.dumps(content, default=str).encode())


def aws_error(service: str, status: int, code: str, message: str) -> Answer:
    """An error in the format that botocore expects from a service: JSON, EC2's XML, or the query protocol's XML."""
    if service in JSON_SERVICES:
        body = json.dumps({"__type": code, "message": message}).encode()
        return Answer(status, [("Content-Type", "application/x-amz-json-1.1"), ("x-amzn-errortype", code)], body)
    error = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    if service == "ec2":
        text = f"<Response><Errors>{error}</Errors><RequestID>{uuid4()}</RequestID></Response>"
    else:
        text = f"<ErrorResponse>{error}<RequestId>{uuid4()}</RequestId></ErrorResponse>"
    return Answer(status, [("Content-Type", "text/xml;charset=UTF-8")], f'<?xml version="1.0"?>{text}'.encode())


def access_denied(service: str, refusal: Refusal) -> Answer:
    """The error of a service for a call that the caller's policy does not allow."""
    if service == "ec2":
        return aws_error(service, 403, "UnauthorizedOperation", refusal.ec2_message)
    if service == "sqs":
        answer = aws_error(service, 403, "AccessDeniedException", refusal.message)
        # Clients take the code from this header, which keeps the one of SQS's earlier protocol.
        return Answer(answer.status, [*answer.headers, ("x-amzn-query-error", "AccessDenied;Sender")], answer.body)
    if service in JSON_SERVICES:
        return aws_error(service, 403 if service in REST_SERVICES else 400, "AccessDeniedException", refusal.message)
    return aws_error(service, 403, "AccessDenied", refusal.message)


def unknown_caller(service: str) -> Answer:
    """The error of a service for an access key that the account does not have."""
    if service == "ec2":
        message = "AWS was not able to validate the provided access credentials"
        return aws_error(service, 401, "AuthFailure", message)
    code = "UnrecognizedClientException" if service in JSON_SERVICES else "InvalidClientTokenId"
    return aws_error(service, 403, code, "The security token included in the request is invalid.")
