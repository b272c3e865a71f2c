"""The admin calls about the workers' rights: what was used and refused, and other policies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sandbox.ec2.admin_requests import PolicyBody, RightsBody, read
from sandbox.ec2.authorization.policy import PolicyError
from sandbox.ec2.world import World


class Rights:
    """The admin calls, by name. Each gets the request's body."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.actions: dict[str, Callable[[bytes], dict[str, Any]]] = {
            "GET rights": lambda _: world.judge.listing(),
            "POST rights": self._enforce,
            "POST policy": self._replace_policy,
        }

    def _enforce(self, body: bytes) -> dict[str, Any]:
        self._world.judge.enforced = read(RightsBody, body).enforced
        return {"status": "ok"}

    def _replace_policy(self, body: bytes) -> dict[str, Any]:
        request = read(PolicyBody, body)
        document = None if request.document is None else json.dumps(request.document)
        try:
            self._world.judge.replace(request.cluster or self._world.cluster.name, document)
        except PolicyError as error:
            raise ValueError(str(error)) from error
        return {"status": "ok"}
