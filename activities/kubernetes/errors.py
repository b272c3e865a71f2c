"""What can go wrong between Tenon and the Kubernetes API, as one small family of exceptions."""

from __future__ import annotations

import json


class ApiError(Exception):
    """The API server refused a request. ``status`` is the HTTP status, ``reason`` the API's own word for it.

    ``causes`` holds the (reason, message) pairs that the server added; ``retry_after`` is seconds, 0 when not said.
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


class NotFound(ApiError):
    """The object, or the kind of object, does not exist (404)."""


class Conflict(ApiError):
    """The object exists already or changed meanwhile, or its UID is another (409)."""


class Forbidden(ApiError):
    """The service account lacks the right, or an admission policy said no (403)."""


class Gone(ApiError):
    """The resource version or the continue token is too old: list again (410)."""


class TooManyRequests(ApiError):
    """The server asks to slow down, or a disruption budget blocks an eviction (429)."""


class ApiUnreachable(ApiError):
    """No answer from the API server at all; the message names its address. The status is 0."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(0, "Unreachable", f"The Kubernetes API server at {host} cannot be reached: {why}")
        self.host = host
        self.why = why

    def __str__(self) -> str:
        return self.message


class ConfigError(Exception):
    """There is no usable configuration of the Kubernetes client; the text says what to set."""


_BY_STATUS: dict[int, type[ApiError]] = {
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}


def from_status(status: int, body: bytes, *, phrase: str = "", retry_after: str = "") -> ApiError:
    """The error of an HTTP answer whose body is a Kubernetes ``Status`` or any other text (a proxy's page)."""
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
