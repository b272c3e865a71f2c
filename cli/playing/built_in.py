"""The manifests that the page offers: those of examples/, which the wheel has too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.playing.form import joined_manifests

FOLDER = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, slots=True)
class Example:
    """Manifests to begin with."""

    title: str
    files: Sequence[str]
    """In `FOLDER`."""
    disruption: bool = False

    @property
    def manifests(self) -> str:
        """Return its text."""
        return joined_manifests(
            [(f"examples/{file}", (FOLDER / file).read_text(encoding="utf-8")) for file in self.files]
        )


EMPTY = "empty"
OWN_FILES = "files"
"""What the manifests of the command line are called in links."""
EXAMPLES: Mapping[str, Example] = {
    "shop": Example("A shop: web, database, batch", ("simulate/shop/nodepools.yaml", "simulate/shop/workloads.yaml")),
    "small": Example("400 small pods", ("simulate/nodepool.yaml", "simulate/small-400.yaml")),
    "large": Example("10 large pods", ("simulate/nodepool.yaml", "simulate/large-10.yaml")),
    "spread": Example("400 pods, spread over hosts", ("simulate/nodepool.yaml", "simulate/spread-400.yaml")),
    "first-look": Example("A Provisioner of 2021", ("seeds/000-first-look.yaml",)),
    "half-empty": Example("Nodes that are half empty", ("simulate/half-empty.yaml",), disruption=True),
    EMPTY: Example("Nothing: paste your own", ()),
}
"""By the name that a link to the page has."""
