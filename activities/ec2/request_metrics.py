"""Counts and times the requests to AWS and their attempts, under the names of the SDK that Karpenter uses (MET-61)."""

from __future__ import annotations

import time
from typing import Any

from activities import metrics

_BEGAN, _ATTEMPT = "tenon_began", "tenon_attempt_began"
NO_ANSWER = ""
"""The label code of a request without an answer."""


def attach(session: Any) -> None:
    """Measure what all clients of a botocore session send."""
    session.register("before-call", _begin)
    session.register("request-created", _begin_attempt)
    session.register("response-received", _count_attempt)
    session.register("after-call", _count)
    session.register("after-call-error", _count_failure)


def _begin(context: dict[str, Any], model: Any, **_: Any) -> None:
    context[_BEGAN] = time.perf_counter()
    context["tenon_labels"] = (model.service_model.service_id, model.name)


def _begin_attempt(request: Any, **_: Any) -> None:
    request.context[_ATTEMPT] = time.perf_counter()


def _count_attempt(context: dict[str, Any], response_dict: Any = None, **_: Any) -> None:
    labels = context.get("tenon_labels")
    if labels is None:
        return
    code = str(response_dict["status_code"]) if response_dict else NO_ANSWER
    context["tenon_attempts"] = context.get("tenon_attempts", 0) + 1
    metrics.AWS_ATTEMPTS.labels(*labels, code).inc()
    began = context.get(_ATTEMPT, time.perf_counter())
    metrics.AWS_ATTEMPT_SECONDS.labels(*labels, code).observe(time.perf_counter() - began)


def _count(context: dict[str, Any], http_response: Any, **_: Any) -> None:
    _count_request(context, str(http_response.status_code))


def _count_failure(context: dict[str, Any], **_: Any) -> None:
    _count_request(context, NO_ANSWER)


def _count_request(context: dict[str, Any], code: str) -> None:
    labels = context.get("tenon_labels")
    if labels is None:
        return
    metrics.AWS_REQUESTS.labels(*labels, code).inc()
    metrics.AWS_REQUEST_SECONDS.labels(*labels, code).observe(time.perf_counter() - context[_BEGAN])
    metrics.AWS_RETRIES.labels(*labels, code).observe(max(0, context.get("tenon_attempts", 1) - 1))
