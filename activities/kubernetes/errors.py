"""The exceptions of the Kubernetes client."""

from __future__ import annotations

import json

from activities.gate import StandingByError
from tenon.errors import TenonError

_TRANSIENT = frozenset({401, 408, 429})
"""The statuses of the range 4xx that say nothing about the request: a token that expired, a timeout, throttling."""


class ApiError(TenonError):
    """The API server refused a request. ``status`` is the HTTP status, ``reason`` the reason in its ``Status``.

    ``causes`` holds the (reason, message) pairs in its details. ``retry_after`` is in seconds, 0 if not stated.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        causes: tuple[tuple[str, str], ...] = (),
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(f"{message} (Kubernetes API: {status} {reason})")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after = retry_after

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later, because this is no answer to what it asks for."""
        return not 400 <= self.status < 500 or self.status in _TRANSIENT


class NotFoundError(ApiError):
    """The object, or the kind of object, does not exist (404)."""


class ConflictError(ApiError):
    """The object exists already, has changed, or has another UID (409)."""


class ForbiddenError(ApiError):
    """The service account lacks a permission, or an admission policy refused the request (403)."""


class GoneError(ApiError):
    """The resource version or the continue token has expired, so list again (410)."""


class TooManyRequestsError(ApiError):
    """The server throttles requests, or a PodDisruptionBudget blocks an eviction (429)."""

    @property
    def budgets(self) -> list[str]:
        """What the PodDisruptionBudgets say that block an eviction; empty if the server throttles requests."""
        budget_messages = [message for reason, message in self.causes if reason == "DisruptionBudget"]
        return budget_messages or ([self.message] if "disruption budget" in self.message else [])


class ApiUnreachableError(ApiError):
    """The API server did not answer. The message names its address, and the status is 0."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(0, "Unreachable", f"The Kubernetes API server at {host} cannot be reached: {why}")
        self.host = host
        self.why = why

    def __str__(self) -> str:
        return self.message


class StreamSilentError(ApiUnreachableError):
    """A stream was open, but nothing arrived on it within the reader's idle timeout."""


class WriteStoppedError(ApiUnreachableError, StandingByError):
    """The write was not sent, because Tenon stands by. Callers handle it like an outage of the API server."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(host, why)
        self.message = f"Nothing was sent to the Kubernetes API server at {host}: {why}"


class ConfigError(TenonError):
    """The Kubernetes client has no usable configuration. The message says what to set."""


_BY_STATUS: dict[int, type[ApiError]] = {
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    429: TooManyRequestsError,
}


def from_status(status: int, body: bytes, *, phrase: str = "", retry_after: str = "") -> ApiError:
    """The exception for an HTTP answer. Its body is a Kubernetes ``Status`` or other text, such as a proxy's page."""
    reason, message = phrase.replace(" ", ""), ""
    causes: list[tuple[str, str]] = []
    seconds = float(retry_after) if retry_after.isdigit() else 0.0
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
        message = body[:300].decode("utf-8", "replace").strip()
    if isinstance(answer, dict):
        reason = str(answer.get("reason") or reason)
        message = str(answer.get("message") or "")
        details = answer.get("details") or {}
        for cause in details.get("causes") or ():
            causes.append((str(cause.get("reason") or ""), str(cause.get("message") or "")))
        seconds = seconds or float(details.get("retryAfterSeconds") or 0)
    return _BY_STATUS.get(status, ApiError)(
        status, reason or "Unknown", message or "No message", causes=tuple(causes), retry_after=seconds
    )
