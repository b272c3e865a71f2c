"""The name of the EC2NodeClass that a Provisioner's inline provider becomes.

That is the Provisioner's own name, unless another class has it or is to have it: a Provisioner with its provider in
itself and an AWSNodeTemplate of the same name ran side by side, and neither may launch with the other's subnets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any

from tenon.apis import labels
from tenon.apis.legacy.conversion import name_of


def provider_class(name: str, taken: Collection[str], own: Sequence[str] = ()) -> str:
    """The class of the Provisioner ``name``.

    Args:
        name: the Provisioner's name.
        taken: the names that other classes have or are to have.
        own: classes that were made from this Provisioner already, the one in use first: a class keeps its name,
            whatever comes or goes beside it.
    """
    tried = len(taken) + len(own) + 1
    possible = [candidate for candidate, _ in zip(_candidates(name), range(tried), strict=False)]
    for known in own:
        if known in possible:
            return known
    return next(candidate for candidate in possible if candidate not in taken)


def wanted_by_others(name: str, provisioners: Iterable[Mapping[str, Any]]) -> set[str]:
    """The classes that the other Provisioners would have, each by its own choice."""
    return {_wanted(body) for body in provisioners if name_of(body) != name} - {""}


def made_from(name: str, classes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which of these EC2NodeClasses a worker has made from the Provisioner ``name``, by their annotation."""
    return [name_of(body) for body in classes if _origin(body) == f"Provisioner {name}"]


def _candidates(name: str) -> Iterator[str]:
    return chain((name, f"{name}-provider"), (f"{name}-provider-{number}" for number in count(2)))


def _wanted(body: Mapping[str, Any]) -> str:
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return ""
    if spec.get("provider") is not None:
        return name_of(body)
    reference = spec.get("providerRef")
    named = reference.get("name") if isinstance(reference, dict) else None
    return f"{named or 'default'}-{name_of(body)}" if spec.get("kubeletConfiguration") else ""


def _origin(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(labels.MADE_FROM) if isinstance(annotations, dict) else None
    return str(text or "").partition(":")[0]
