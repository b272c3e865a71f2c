"""The admin API under ``/sandbox/``: faults, capacity, limits, boot failures, and the record of calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol

from pydantic import ValidationError

from sandbox.ec2.admin_requests import (
    BootBody,
    BucketsBody,
    CapacityBody,
    LifecycleBody,
    PolicyBody,
    QuotaBody,
    RightsBody,
    ThrottleBody,
    read,
)
from sandbox.ec2.authorization.policy import PolicyError
from sandbox.ec2.boot import BootPlan, BootRule
from sandbox.ec2.consistency import Delays
from sandbox.ec2.errors import Answer, json_answer
from sandbox.ec2.external_faults import ExternalFaults
from sandbox.ec2.faults import Fault
from sandbox.ec2.held_calls import Hold
from sandbox.ec2.instances import Timing
from sandbox.ec2.market import CapacityRule
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


class Rejections(Protocol):
    """The joiner's record of pods."""

    def rejections(self) -> dict[str, list[dict[str, Any]]]: ...

    def clear_rejections(self) -> None: ...


class AdminApi:
    """Handles admin calls. ``reset`` empties the mock and seeds it again."""

    def __init__(self, world: World, boot: BootPlan, reset: Callable[[], None]) -> None:
        self._world = world
        self._boot = boot
        self._reset = reset
        self._others = ExternalFaults(world).actions | Rights(world).actions
        self._others["POST consistency"] = self._set_delays
        self._others["DELETE consistency"] = self._restore_delays
        self._others["POST quotas"] = self._limit_quota
        self._others["DELETE quotas"] = self._clear_quotas
        self._others["GET bill"] = self._bill
        self.joiner: Rejections | None = None

    def answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> Answer:
        """Handle one call. The answer is 400 with a sentence for a bad body, and 404 for an unknown path."""
        name = f"{method} {path.removeprefix('/sandbox/').strip('/')}"
        try:
            match name:
                case "GET health":
                    return json_answer(200, self._health())
                case "POST faults":
                    self._world.faults.add(read(Fault, body))
                case "GET faults":
                    return json_answer(200, {"faults": self._world.faults.listing()})
                case "DELETE faults":
                    self._world.faults.clear(query.get("action", ""), query.get("label", ""))
                case "POST holds":
                    self._world.holds.add(read(Hold, body))
                case "GET holds":
                    return json_answer(200, {"held": self._world.holds.waiting()})
                case "DELETE holds":
                    self._world.holds.release()
                case "POST throttle":
                    self._world.throttle.limit(**read(ThrottleBody, body).model_dump())
                case "DELETE throttle":
                    self._world.throttle.clear()
                case "GET buckets":
                    return json_answer(200, self._world.buckets.listing())
                case "POST buckets":
                    self._world.buckets.enforce(read(BucketsBody, body).enforced)
                case "POST capacity":
                    rule = read(CapacityBody, body)
                    self._world.market.set_capacity(
                        CapacityRule(rule.type, rule.zone, rule.capacity_type, rule.available)
                    )
                case "GET capacity":
                    return json_answer(200, {"rules": [asdict(rule) for rule in self._world.market.rules()]})
                case "DELETE capacity":
                    self._world.market.clear_capacity()
                case "POST boot":
                    boot = read(BootBody, body)
                    self._boot.add(
                        BootRule(
                            boot.type,
                            boot.delay,
                            boot.never,
                            boot.not_ready,
                            boot.dies,
                            boot.console,
                            boot.chance,
                            boot.seed,
                        )
                    )
                case "GET boot":
                    rules = [asdict(rule) for rule in self._boot.rules()]
                    return json_answer(200, {"default_delay": self._boot.default_delay, "rules": rules})
                case "DELETE boot":
                    self._boot.clear()
                case "POST lifecycle":
                    self._set_timing(read(LifecycleBody, body))
                case "GET calls":
                    return json_answer(200, {"calls": self._world.calls.listing(query.get("action", ""))})
                case "DELETE calls":
                    self._world.calls.clear()
                case "GET rejections":
                    return json_answer(200, self._rejections())
                case "DELETE rejections":
                    if self.joiner:
                        self.joiner.clear_rejections()
                case "GET instances":
                    return json_answer(200, {"instances": self._instances()})
                case "POST reset":
                    self._reset()
                case _ if name in self._others:
                    return json_answer(200, self._others[name](body))
                case _:
                    return json_answer(404, {"message": f"The sandbox has no {method} {path}"})
        except (ValidationError, ValueError) as error:
            return json_answer(400, {"message": f"{method} {path}: {error}"})
        return json_answer(200, {"status": "ok"})

    def _set_delays(self, body: bytes) -> dict[str, Any]:
        self._world.consistency.delays = read(Delays, body)
        return {"status": "ok"}

    def _restore_delays(self, _: bytes) -> dict[str, Any]:
        self._world.consistency.restore()
        return {"status": "ok"}

    def _limit_quota(self, body: bytes) -> dict[str, Any]:
        quota = read(QuotaBody, body)
        self._world.fleets.quotas.set(quota.type, quota.capacity_type, quota.vcpus)
        return {"status": "ok"}

    def _clear_quotas(self, _: bytes) -> dict[str, Any]:
        self._world.fleets.quotas.clear()
        return {"status": "ok"}

    def _bill(self, _: bytes) -> dict[str, Any]:
        self._world.book.advance()
        return self._world.billing.listing(self._world.now())

    def _set_timing(self, request: LifecycleBody) -> None:
        timing: Timing = self._world.book.timing
        for name, seconds in request.model_dump(exclude_none=True).items():
            setattr(timing, name, seconds)

    def _rejections(self) -> dict[str, list[dict[str, Any]]]:
        return self.joiner.rejections() if self.joiner else {"rejections": [], "misplaced": []}

    def _health(self) -> dict[str, Any]:
        self._world.book.advance()
        return {
            "status": "ok",
            "internal_errors": len(self._world.internal_errors),
            "internal_error_calls": self._world.internal_errors[-20:],
            "instances": dict(Counter(machine.state for machine in self._world.book.all())),
            "joiner": self.joiner is not None,
        }

    def _instances(self) -> list[dict[str, Any]]:
        self._world.book.advance()
        return [
            {
                "id": machine.id,
                "type": machine.pool[0],
                "zone": machine.pool[1],
                "capacity_type": machine.pool[2],
                "state": machine.state,
                "state_reason": machine.reason[0] if machine.reason else "",
                "private_dns_name": machine.instance.private_dns_name,
                "fleet_id": machine.fleet_id,
                "launched": machine.instance.launch_time,
                "price": self._world.prices.price(machine.pool[2], machine.pool[0], machine.tenancy),
                "tags": dict(machine.instance.ec2_backend.tags.get(machine.id) or {}),
            }
            for machine in self._world.book.all()
        ]
