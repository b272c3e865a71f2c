"""What ``tenon shadow`` reads before it watches: manifests, the catalogue of instance types, and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from activities.kubernetes.resources import EC2NODECLASSES, NODEPOOLS, Resource
from cli.simulating import builtin
from cli.simulating.files import read_catalogue_file, read_files
from tenon.apis.hashing import digest_of
from tenon.ec2.types.capacity_reservations import without_reservations
from tenon.errors import TenonError
from tenon.kube.records import ObjectRecord
from tenon.kube.scheduler_config import NOTHING, DefaultSpread
from tenon.manifests.faults import ManifestError, Source, in_order
from tenon.scheduling.model import InstanceType
from tenon.shadow.nodes import OfferingPrices
from tenon.simulation.class_types import ClassTypes
from tenon.simulation.decisions import PlanQuestion
from tenon.simulation.defaults import fill_in
from tenon.simulation.objects import Objects
from tenon.simulation.reading import finish
from tenon.simulation.settings import PlanSettings, read_settings
from worker.scheduler_document import default_spread, scheduler_document

FROM_FILES = (NODEPOOLS, EC2NODECLASSES)
"""What files replace: if they have any of these, none is read from the cluster."""


class InputsError(TenonError):
    """The input cannot be used; ``faults`` contains the reasons."""

    def __init__(self, faults: Sequence[ManifestError]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


@dataclass(frozen=True)
class Inputs:
    """What decisions of the model depend on besides the cluster."""

    settings: PlanSettings
    types: Sequence[InstanceType]
    objects: Objects
    spread: DefaultSpread
    is_built_in: bool
    """Whether the types are those of the built-in catalogue."""
    fingerprint: str = ""
    """A digest of the manifests, the catalogue's name and the settings that the user gave; empty if there are none."""
    notes: list[str] = field(default_factory=list)
    price_notes: Sequence[str] = (
        "Prices are us-west-2's list prices of the built-in catalogue; spot prices are estimates",
    )
    """What to know about prices, if the types are the built-in ones."""

    @cached_property
    def plain_types(self) -> Sequence[InstanceType]:
        """The types of the built-in catalogue, whatever the prices of now are."""
        return read_catalogue_file(None)[0]

    @cached_property
    def question(self) -> PlanQuestion:
        """The input to a plan, without pods."""
        class_types = ClassTypes(self.types, builtin.descriptions, self.settings.node_settings)
        return PlanQuestion(pods=(), types=self.types, types_of=class_types.of, policy=self.settings.policy())

    @cached_property
    def prices(self) -> OfferingPrices:
        """The prices of all offerings."""
        return {
            (kind.name, offering.zone, offering.capacity_type): offering.price
            for kind in self.types
            for offering in kind.offerings
        }

    @property
    def replaced(self) -> Sequence[Resource]:
        """The resources that are not read from the cluster."""
        return FROM_FILES if any(self.objects.of(resource.kind) for resource in FROM_FILES) else ()

    def records(self, resource: Resource) -> list[ObjectRecord]:
        """The objects of the files."""
        return [ObjectRecord.of(item.body) for item in self.objects.of(resource.kind)]


def read_inputs(filenames: Sequence[str], catalog: str | None, settings: Sequence[str]) -> Inputs:
    """Read the files and the settings.

    Raises:
        InputsError: one of them cannot be used.
    """
    plan_settings, faults, notes = read_settings(settings)
    objects = read_files(filenames)
    types, catalogue_faults = read_catalogue_file(catalog)
    if not plan_settings.gates().reserved_capacity:
        types = without_reservations(types)
    fingerprint = _fingerprint(objects, catalog, settings)
    finish(objects, datetime.now(UTC))
    spread = NOTHING
    try:
        spread = default_spread(scheduler_document(plan_settings.scheduler_config))
    except ValueError as error:
        faults.append(ManifestError(Source("--set SCHEDULER_CONFIG"), f"cannot be used: {error}"))
    faults += [*catalogue_faults, *in_order(objects.faults)]
    if faults:
        raise InputsError(faults)
    if any(objects.of(NODEPOOLS.kind)):
        fill_in(objects, expressions=plan_settings.aws_gates().node_class_cel)
    notes += objects.notes
    return Inputs(plan_settings, types, objects, spread, catalog is None, fingerprint, notes)


def _fingerprint(objects: Objects, catalog: str | None, settings: Sequence[str]) -> str:
    bodies = [item.body for resource in FROM_FILES for item in objects.of(resource.kind)]
    options = {"manifests": bodies, "catalog": catalog, "settings": list(settings)}
    return digest_of(options) if any(options.values()) else ""
