"""Chooses the name of the EC2NodeClass for a Provisioner's inline provider.

It is the name of the Provisioner, unless another class has this name or will have it. In old clusters, a Provisioner
with an inline provider and an AWSNodeTemplate could have the same name, and neither may use the other's subnets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any

from tenon.apis import labels
from tenon.apis.json_object import field_at
from tenon.apis.legacy.conversion import name_of


def provider_class(name: str, taken_names: Collection[str], own: Sequence[str] = ()) -> str:
    """Return the class of the Provisioner ``name``.

    Args:
        name: the Provisioner's name.
        taken_names: the names that other classes have or will have.
        own: the classes already generated from this Provisioner, the one in use first. A class keeps its name, whatever
            other objects are created or deleted.
    """
    tried = len(taken_names) + len(own) + 1
    possible = [candidate for candidate, _ in zip(_candidates(name), range(tried), strict=False)]
    for own_name in own:
        if own_name in possible:
            return own_name
    return next(candidate for candidate in possible if candidate not in taken_names)


def chosen_by_others(name: str, provisioners: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the classes that the other Provisioners would choose, each without regard to the others."""
    return {_chosen_class(body) for body in provisioners if name_of(body) != name} - {""}


def made_from(name: str, classes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the EC2NodeClasses that Tenon generated from the Provisioner ``name``, according to their annotation."""
    return [name_of(body) for body in classes if _origin(body) == f"Provisioner {name}"]


def _candidates(name: str) -> Iterator[str]:
    return chain((name, f"{name}-provider"), (f"{name}-provider-{number}" for number in count(2)))


def _chosen_class(body: Mapping[str, Any]) -> str:
    if field_at(body, "spec", "provider") is not None:
        return name_of(body)
    reference_name = field_at(body, "spec", "providerRef", "name")
    return f"{reference_name or 'default'}-{name_of(body)}" if field_at(body, "spec", "kubeletConfiguration") else ""


def _origin(body: Mapping[str, Any]) -> str:
    return str(field_at(body, "metadata", "annotations", labels.MADE_FROM) or "").partition(":")[0]
