"""Validates a catalogue file before it is used, so that each fault names its field."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from tenon.apis.base import ApiModel
from tenon.apis.labels import RESERVED
from tenon.apis.validation import FieldError
from tenon.manifests.faults import ManifestError, Source
from tenon.scheduling.catalog import parse_catalog
from tenon.scheduling.model import InstanceType
from tenon.simulation.fields import Amounts, Text, located


class OfferingEntry(ApiModel):
    """One offering of an instance type."""

    zone: Text
    capacity_type: Literal["on-demand", "spot", "reserved"]
    price: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False, strict=False)]
    available: bool = True
    zone_id: str = Field(default="", alias="zoneId")
    reservation_id: str = Field(default="", alias="reservationId")
    reservation_capacity: int = Field(default=0, ge=0, le=10**9)
    reservation_type: Literal["default", "capacity-block"] = "default"
    interruptible: bool = False

    @model_validator(mode="after")
    def _names_its_reservation(self) -> Self:
        if self.capacity_type == RESERVED and not self.reservation_id:
            raise ValueError("is reserved and names no reservationId: nothing could be bought from it")
        return self


class TypeEntry(ApiModel):
    """An instance type."""

    name: Text
    requirements: dict[str, list[str]] = {}
    capacity: Amounts
    overhead: Amounts = {}
    offerings: list[OfferingEntry]


class CatalogueFile(ApiModel):
    """The whole file."""

    instance_types: Annotated[list[TypeEntry], Field(max_length=20_000)]


def read_catalogue(document: Any, source: Source) -> tuple[list[InstanceType], list[ManifestError]]:
    """Return the instance types of a parsed catalogue, or its faults."""
    if not isinstance(document, Mapping):
        return [], [ManifestError(source, "is not a mapping with the list instanceTypes")]
    try:
        CatalogueFile.model_validate(dict(document))
    except ValidationError as error:
        return [], [_fault(document, problem, source) for problem in located(error)]
    try:
        return parse_catalog(document), []
    except ValueError as error:
        return [], [ManifestError(source, str(error))]


def _fault(document: Mapping[str, Any], problem: FieldError, source: Source) -> ManifestError:
    """Build the fault for a problem, with the name of the instance type that has it."""
    entries, path = document.get("instanceTypes"), problem.path
    subject = ""
    if isinstance(entries, list) and path.startswith("instanceTypes[") and (end := path.find("]")) > 0:
        entry = entries[int(path[len("instanceTypes[") : end])]
        name = entry.get("name") if isinstance(entry, dict) else None
        subject = f"instance type {name}" if isinstance(name, str) else ""
    return ManifestError(source, problem.sentence, subject, path)
