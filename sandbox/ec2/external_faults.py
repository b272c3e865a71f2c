"""External events in an account: instances that other users end, orphans, pools that run out of capacity."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from moto.ec2.models import ec2_backends

from sandbox.ec2 import catalogue
from sandbox.ec2.admin_requests import (
    BuyReservedInstancesBody,
    BuySavingsPlanBody,
    EndReservationBody,
    EventBody,
    ExhaustBody,
    ImpairBody,
    InstanceBody,
    InterruptBody,
    PlacementGroupBody,
    PlantInstanceBody,
    PlantTemplateBody,
    ReserveBody,
    ShiftBody,
    SilenceBody,
    SpotRoleBody,
    SpotScoresBody,
    read,
)
from sandbox.ec2.authorization.identities import ACCOUNT
from sandbox.ec2.images import images
from sandbox.ec2.launch import LaunchRefusedError, launch
from sandbox.ec2.market import CapacityRule
from sandbox.ec2.region import REGION
from sandbox.ec2.templates import LaunchSpec
from sandbox.ec2.world import World

BY_HAND = ("Client.UserInitiatedShutdown", "User initiated shutdown")


class ExternalFaults:
    """The admin calls that cause such events, by name. Each gets the request's body."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.actions: dict[str, Callable[[bytes], dict[str, Any]]] = {
            "POST kill-instance": self._kill,
            "POST stop-instance": self._stop,
            "POST vanish-instance": self._vanish,
            "POST interrupt-instance": self._interrupt,
            "POST recommend-rebalance": self._recommend_rebalance,
            "POST schedule-retirement": self._schedule_retirement,
            "POST impair-instance": self._impair,
            "POST silence-kubelet": self._silence_kubelet,
            "POST schedule-event": self._schedule_event,
            "POST plant-instance": self._plant_instance,
            "POST plant-launch-template": self._plant_template,
            "POST exhaust-cheapest": self._exhaust,
            "POST spot-role": self._set_spot_role,
            "POST reserve": self._reserve,
            "POST reserved-instances": self._buy_reserved_instances,
            "POST savings-plan": self._buy_savings_plan,
            "POST spot-scores": self._state_spot_scores,
            "POST placement-group": self._placement_group,
            "POST shift-zone": self._shift,
            "POST end-reservation": self._end_reservation,
        }

    def _buy_reserved_instances(self, body: bytes) -> dict[str, Any]:
        request = read(BuyReservedInstancesBody, body)
        return {"id": self._world.commitments.reserve(request.type, request.count, request.zone)}

    def _buy_savings_plan(self, body: bytes) -> dict[str, Any]:
        request = read(BuySavingsPlanBody, body)
        return {"id": self._world.commitments.commit(request.commitment, request.family)}

    def _state_spot_scores(self, body: bytes) -> dict[str, Any]:
        self._world.spot_scores.state(read(SpotScoresBody, body).scores)
        return {"status": "ok"}

    def _kill(self, body: bytes) -> dict[str, Any]:
        self._world.book.lose(read(InstanceBody, body).id, *BY_HAND)
        return {"status": "ok"}

    def _stop(self, body: bytes) -> dict[str, Any]:
        self._world.book.stop(read(InstanceBody, body).id, *BY_HAND)
        return {"status": "ok"}

    def _vanish(self, body: bytes) -> dict[str, Any]:
        self._world.book.vanish(read(InstanceBody, body).id)
        return {"status": "ok"}

    def _interrupt(self, body: bytes) -> dict[str, Any]:
        request = read(InterruptBody, body)
        machine = self._world.book.interrupt(request.id, request.notice_seconds)
        self._world.events.spot_interrupted(machine.id, machine.pool[1])
        return {"status": "ok"}

    def _recommend_rebalance(self, body: bytes) -> dict[str, Any]:
        machine = self._world.book.living(read(InstanceBody, body).id)
        self._world.events.rebalance_recommended(machine.id, machine.pool[1])
        return {"status": "ok"}

    def _schedule_retirement(self, body: bytes) -> dict[str, Any]:
        machine = self._world.book.living(read(InstanceBody, body).id)
        machine.events.append(("instance-retirement", "The instance is running on degraded hardware"))
        self._world.events.retirement_scheduled(machine.id)
        return {"status": "ok"}

    def _impair(self, body: bytes) -> dict[str, Any]:
        request = read(ImpairBody, body)
        machine = self._world.book.living(request.id)
        machine.impaired.pop(request.check, None)
        if request.seconds is not None:
            machine.impaired[request.check] = self._world.now() - request.seconds
        return {"status": "ok"}

    def _silence_kubelet(self, body: bytes) -> dict[str, Any]:
        request = read(SilenceBody, body)
        self._world.book.living(request.id).silent = request.silent
        return {"status": "ok"}

    def _schedule_event(self, body: bytes) -> dict[str, Any]:
        request = read(EventBody, body)
        self._world.book.living(request.id).events.append((request.code, request.description))
        return {"status": "ok"}

    def _placement_group(self, body: bytes) -> dict[str, Any]:
        request = read(PlacementGroupBody, body)
        return {"id": self._world.groups.create(request.name, request.strategy, request.partitions).id}

    def _shift(self, body: bytes) -> dict[str, Any]:
        request = read(ShiftBody, body)
        shifts = self._world.zonal_shifts
        zones = shifts.by_arc if request.auto else shifts.by_hand
        (zones.add if request.away else zones.discard)(request.zone)
        return {"status": "ok"}

    def _reserve(self, body: bytes) -> dict[str, Any]:
        request = read(ReserveBody, body)
        output = self._world.reservations.create(
            instance_type=request.type,
            zone=request.zone,
            total=request.count,
            criteria=request.criteria,
            type="capacity-block" if request.block else "default",
            interruptible=request.interruptible,
            owner=request.owner,
            end=request.end,
            tags=request.tags,
        )
        return {"id": output.id}

    def _end_reservation(self, body: bytes) -> dict[str, Any]:
        request = read(EndReservationBody, body)
        if request.at is not None:
            self._world.reservations.schedule_end(request.id, request.at)
        else:
            self._world.reservations.end(request.id)
        return {"status": "ok"}

    def _plant_instance(self, body: bytes) -> dict[str, Any]:
        request = read(PlantInstanceBody, body)
        backend = ec2_backends[ACCOUNT][REGION]
        architecture = catalogue.architecture(request.type)
        spec = LaunchSpec(
            template_id="",
            template_name="",
            version="",
            data={"ImageId": next(image.id for image in images() if image.architecture == architecture)},
            override={"InstanceType": request.type, "SubnetId": self._subnet(backend, request.zone)},
        )
        spot = request.capacity_type == "spot"
        with self._world.lock:
            try:
                reservation = launch(backend, spec, 1, {"instance": request.tags}, spot=spot, token="")
            except LaunchRefusedError as refused:
                raise ValueError(str(refused)) from refused
            instance = reservation.instances[0]
            instance.launch_time -= timedelta(seconds=request.age_seconds)
            pool = (request.type, request.zone, request.capacity_type)
            machine = self._world.book.add(instance, pool, reservation.id, age=request.age_seconds)
            machine.joins = request.joins
            machine.capacity_reservation_id = request.reservation
        return {"id": machine.id}

    def _subnet(self, backend: Any, zone: str) -> str:
        """The cluster's subnet in a zone."""
        for subnet in (subnet for result in backend.subnets.values() for subnet in result.values()):
            tags = backend.tags.get(subnet.id) or {}
            if subnet.availability_zone == zone and tags.get("karpenter.sh/discovery") == self._world.cluster.name:
                return str(subnet.id)
        raise ValueError(f"the cluster has no subnet in {zone}")

    def _plant_template(self, body: bytes) -> dict[str, Any]:
        request = read(PlantTemplateBody, body)
        backend = ec2_backends[ACCOUNT][REGION]
        data = {"ImageId": images()[0].id}
        with self._world.lock:
            if request.name in backend.launch_template_name_to_ids:
                raise ValueError(f"there is a launch template {request.name} already")
            template = backend.create_launch_template(request.name, "", data, {"launch-template": request.tags})
            template.create_time -= timedelta(seconds=request.age_seconds)
        return {"id": str(template.id)}

    def _set_spot_role(self, body: bytes) -> dict[str, Any]:
        self._world.fleets.spot_role = read(SpotRoleBody, body).exists
        return {"status": "ok"}

    def _exhaust(self, body: bytes) -> dict[str, Any]:
        """Empty the cheapest pools that have capacity left. Pools with the same price are sorted by name."""
        request = read(ExhaustBody, body)
        market = self._world.market
        capacity_types = [request.capacity_type] if request.capacity_type else ["on-demand", "spot"]
        priced = sorted(
            (price, kind, zone, capacity_type)
            for kind, zone in catalogue.zonal_offerings(REGION)
            for capacity_type in capacity_types
            if (not request.types or kind in request.types)
            and (price := market.prices.price(capacity_type, kind)) is not None
        )
        emptied: list[dict[str, Any]] = []
        for price, kind, zone, capacity_type in priced:
            if len(emptied) == request.count:
                break
            if market.left((kind, zone, capacity_type)) != 0:
                market.set_capacity(CapacityRule(kind, zone, capacity_type, 0))
                emptied.append({"type": kind, "zone": zone, "capacity_type": capacity_type, "price": price})
        return {"pools": emptied}
