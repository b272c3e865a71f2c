"""The cluster's Kubernetes version, which selects the images. It can change while a worker runs."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable

from activities import loggers
from activities.ec2.errors import EC2Error
from activities.kubernetes.errors import ApiError

log = loggers.VERSION

KEPT = 300.0
"""Cache TTL in seconds."""


class ClusterVersion:
    """Caches the version and asks for it again every few minutes."""

    def __init__(
        self, version: str, ask: Callable[[], Awaitable[str]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Store the first version.

        Args:
            version: the version that the API server or EKS has just reported.
            ask: asks the API server or EKS again.
            clock: monotonic seconds.
        """
        self._last_version = version
        self._ask = ask
        self._clock = clock
        self._again_at = clock() + KEPT

    async def current(self) -> str:
        """The version, such as ``1.36``. If the request fails, the last known version."""
        if self._clock() < self._again_at:
            return self._last_version
        self._again_at = self._clock() + KEPT
        try:
            current_version = await self._ask()
        except (ApiError, EC2Error, OSError) as error:
            log.warning(
                "The worker failed to read the version of Kubernetes and selects images for the last known one",
                extra={"version": self._last_version, "error": str(error)},
            )
            return self._last_version
        if current_version and current_version != self._last_version:
            log.info(
                "The version of Kubernetes changed",
                extra={"previous-version": self._last_version, "version": current_version},
            )
            self._last_version = current_version
        return self._last_version


def server_version(answer: bytes) -> str:
    """The version in an API server's answer to ``/version``, such as ``1.36``; empty if the answer has none."""
    version_info = json.loads(answer)
    major, minor = str(version_info.get("major", "")), str(version_info.get("minor", "")).rstrip("+")
    return f"{major}.{minor}" if major and minor else ""
