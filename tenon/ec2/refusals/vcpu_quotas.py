"""EC2's vCPU quotas: which instance types share a quota. A quota that is used up says nothing about other types.

An account has one quota for each group of instance families, and separate ones for spot and on-demand. A new account
has a quota of 0 for most groups with accelerators.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tenon.apis import labels

STANDARD = "Standard"
_STANDARD = frozenset({"a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"})
_NAMES = {
    "dl": "DL",
    "f": "F",
    "g": "G and VT",
    "gr": "G and VT",
    "hpc": "HPC",
    "inf": "Inf",
    "p": "P",
    "trn": "Trn",
    "u": "High Memory",
    "vt": "G and VT",
    "x": "X",
}
_FAMILY = re.compile(r"([a-z]+)[0-9-]")


@lru_cache(16_384)
def quota_of(instance_type: str, capacity_type: str) -> str:
    """Return the name of the quota that an instance of the type counts against; empty if the text is not a type.

    Families that no known quota covers have one of their own. P5 has its own quota for spot, and none for on-demand.
    """
    family, _, size = instance_type.partition(".")
    letters = _FAMILY.match(family)
    if not size or letters is None:
        return ""
    name = letters[1]
    if name in _STANDARD:
        return STANDARD
    if name == "p" and capacity_type == labels.SPOT and not family.startswith(("p2", "p3", "p4")):
        return family[:2].upper()
    return _NAMES.get(name, name)
