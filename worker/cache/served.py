"""Checks whether the API server serves a kind, because a missing CRD must not stop the worker."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from activities import loggers
from activities.kubernetes.errors import ApiError, NotFoundError
from activities.kubernetes.resources import Resource
from worker.log_rate_limit import LogRateLimiter

if TYPE_CHECKING:  # not loaded by plans from files: see cluster.py
    from activities.kubernetes.client import Kube

log = loggers.CACHE

RECHECK_SECONDS = 30.0
"""Seconds until the next check of a kind that is not served."""


async def served(kube: Kube, resource: Resource, log_limiter: LogRateLimiter) -> bool:
    """Whether the API server serves the kind. Retries until the API server answers."""
    while True:
        try:
            answer = json.loads(await kube.request("GET", f"/apis/{resource.api_version}"))
            return any(entry.get("name") == resource.plural for entry in answer.get("resources") or ())
        except NotFoundError:
            return False
        except (ApiError, ValueError) as error:
            if log_limiter.count(resource.plural) is not None:
                log.warning(
                    "The worker failed to read which resources the API server serves", extra={"error": str(error)}
                )
            await asyncio.sleep(RECHECK_SECONDS / 10)
