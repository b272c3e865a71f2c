"""Finds the AMIs of a node class: by alias or SSM parameter, by id, or by name and tags."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from activities.clock import utc_now
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated
from activities.ec2.network import tag_filters
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.ec2terms import AMISelectorTerm
from tenon.ec2.families import FAMILIES
from tenon.ec2.families.amis import Image, Term, described_image, newest_per_requirements, usable
from tenon.ec2.families.cluster import minor_version

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import FilterTypeDef

PARAMETER_SECONDS = 300.0
"""The maximum cache TTL of a parameter's value. A missing parameter is not cached, because it may be created next."""


class Images:
    """Reads AMIs and the SSM parameters that name them. Thread-safe."""

    def __init__(
        self,
        clients: Ec2,
        *,
        parameter_seconds: float = PARAMETER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._clients = clients
        self._clock = clock
        self._now = now
        self._lock = threading.Lock()
        self._parameter_seconds = min(parameter_seconds, PARAMETER_SECONDS)
        self._parameters: dict[str, tuple[float, str]] = {}

    def resolve(self, node_class: EC2NodeClass, kubernetes_version: str) -> list[Image]:
        """The images that the class's terms select, preferred ones first, one per set of requirements.

        Raises:
            UnsupportedAliasError: AWS publishes no images of an alias for this Kubernetes version.
        """
        images: list[Image] = []
        for term in node_class.spec.ami_selector_terms:
            images += self._of_term(term, kubernetes_version)
        return newest_per_requirements(images)

    def _of_term(self, term: AMISelectorTerm, kubernetes_version: str) -> list[Image]:
        if term.family is not None:
            queries = FAMILIES[term.family].images(minor_version(kubernetes_version), term.version or "latest")
            parameter_values = self._values([query.parameter for query in queries])
            return self._by_id([(parameter_values[query.parameter], query.requirements) for query in queries])
        if term.ssm_parameter is not None:
            return self._by_id([(self._values([term.ssm_parameter])[term.ssm_parameter], None)])
        if term.id is not None:
            return self._by_id([(term.id, None)])
        filters = tag_filters(term.tags)
        if term.name is not None:
            filters.append({"Name": "name", "Values": [term.name]})
        # Images that another account shares are selected by their tags, so only a name looks at fewer owners.
        owners = ["self", "amazon"] if term.name is not None else None
        items = self._described(filters, [term.owner] if term.owner else owners)
        return [self._image(item, None) for item in items if usable(item)]

    def _by_id(self, queries: Sequence[tuple[str | None, Sequence[Term] | None]]) -> list[Image]:
        ids = sorted({image_id for image_id, _ in queries if image_id})
        if not ids:
            return []
        items = {item["ImageId"]: item for item in self._described([{"Name": "image-id", "Values": ids}], None)}
        return [
            self._image(items[image_id], requirements)
            for image_id, requirements in queries
            if image_id in items and usable(items[image_id])
        ]

    def _image(self, item: dict[str, Any], requirements: Sequence[Term] | None) -> Image:
        return described_image(item, self._now().strftime("%Y-%m-%dT%H:%M:%S.000Z"), requirements)

    def _described(self, filters: list[FilterTypeDef], owners: list[str] | None) -> list[dict[str, Any]]:
        options: dict[str, Any] = {"Owners": owners} if owners else {}
        pages = self._clients.ec2.get_paginator("describe_images").paginate(
            Filters=filters, IncludeDeprecated=True, **options
        )
        with translated("DescribeImages"):
            return [cast("dict[str, Any]", item) for page in pages for item in page["Images"]]

    def _values(self, parameters: Iterable[str]) -> dict[str, str | None]:
        """Parameter name to value, or to None if the parameter does not exist."""
        names = sorted(set(parameters))
        now = self._clock()
        with self._lock:
            fresh = {name: value for name, (until, value) in self._parameters.items() if name in names and now < until}
        values: dict[str, str | None] = {**fresh}
        for name in names:
            if name in fresh:
                continue
            values[name] = value = self._value(name)
            if value is not None:
                with self._lock:
                    self._parameters[name] = (now + self._parameter_seconds, value)
        return values

    def _value(self, name: str) -> str | None:
        """The value of one parameter.

        GetParameters would take ten names, but it is another right than Karpenter's role grants, and it answers with
        other names than asked for if they have a version, a label or an ARN.
        """
        try:
            with translated("GetParameter"):
                return self._clients.ssm.get_parameter(Name=name)["Parameter"].get("Value")
        except EC2Error as error:
            if error.not_found:
                return None
            raise
