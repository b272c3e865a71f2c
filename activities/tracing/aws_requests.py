"""Records the requests to AWS as spans. The wait for a turn within EC2's rate limits is not in them."""

from __future__ import annotations

from typing import Any

from activities.tracing import spans
from activities.tracing.catalogue import Attribute

_SPAN = "tenon_span"
READING = ("Describe", "Get", "List", "Receive")


def attach(session: Any) -> None:
    """Record what all clients of a botocore session send."""
    session.register("before-call", _remember)
    session.register("request-created", _begin)  # after that of the rate limits, which is first and waits
    session.register("response-received", _end)


def _remember(context: dict[str, Any], model: Any, **_: Any) -> None:
    if spans.is_recording():
        context["tenon_called"] = (model.service_model.service_id, model.name)


def _begin(request: Any, **_: Any) -> None:
    called = request.context.get("tenon_called")
    if called is None:
        return
    service, action = called
    attributes: dict[Attribute, spans.Value] = {
        Attribute.RPC_SYSTEM: "aws-api",
        Attribute.RPC_SERVICE: service,
        Attribute.RPC_METHOD: action,
        Attribute.REGION: request.context.get("client_region") or "",
    }
    span = spans.request(f"{service}.{action}", attributes, reads=action.startswith(READING))
    if span is not None:
        request.context[_SPAN] = span


def _end(context: dict[str, Any], response_dict: Any = None, parsed_response: Any = None, **rest: Any) -> None:
    span: spans.Span | None = context.pop(_SPAN, None)
    if span is None:
        return
    metadata = (parsed_response or {}).get("ResponseMetadata") or {}
    code = str(((parsed_response or {}).get("Error") or {}).get("Code") or "")
    if response_dict is not None:
        span.set({Attribute.HTTP_STATUS: int(response_dict["status_code"])})
    span.set({Attribute.AWS_REQUEST: str(metadata.get("RequestId") or ""), Attribute.AWS_CODE: code})
    error = rest.get("exception")
    if error is not None:
        span.fail(error)
    elif code:
        span.set({Attribute.ERROR: code})
        span.fail(code)
    span.end()
