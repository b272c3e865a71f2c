"""The algebra of label requirements: what a NodePool allows, what a pod requires, what an instance type offers.

A requirement holds the values that a label may have: a set, or everything except a set, within inclusive integer
bounds. It also records whether the label may be missing: `NotIn` and `DoesNotExist` accept a node without the label,
`In` and `Exists` do not. This distinguishes "must not exist" from "contradicts itself".
"""

from __future__ import annotations

import difflib
import re
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any

from tenon.apis import labels
from tenon.apis.restricted import restricted_reason

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GT = "Gt"
LT = "Lt"
GTE = "Gte"
LTE = "Lte"
OPERATORS = frozenset({IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT, GTE, LTE})

_MAX_INT = 2**63 - 1
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_ANY_NUMBER = re.compile(r"[+-]?[0-9]{1,63}")
_VALUES_SHOWN = 5
_ALIKE = 0.85
"""The similarity, from 0 to 1, above which one label counts as a typo of another."""
_NOTHING: frozenset[str] = frozenset()


def _whole(text: str) -> int | None:
    """Parse a label value as an integer; None if it is not one."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def _bound(text: str) -> int | None:
    """Like `_whole`, but clamp numbers beyond every label value to just outside the valid range."""
    if not _ANY_NUMBER.fullmatch(text):
        return None
    return max(-_MAX_INT, min(int(text), _MAX_INT + 1))


class Requirement:
    """What one label of a node may be. Immutable and hashable; build it with `Requirement.new`."""

    __slots__ = ("_hash", "_sorted", "complement", "gte", "key", "lte", "may_be_absent", "members", "min_values")

    def __init__(
        self,
        key: str,
        complement: bool,
        members: frozenset[str],
        *,
        gte: int | None = None,
        lte: int | None = None,
        min_values: int | None = None,
        may_be_absent: bool = False,
    ) -> None:
        """Store the parts unchanged. ``members`` are the allowed values, or with ``complement`` the excluded values."""
        self.key = key
        self.complement = complement
        self.members = members
        self.gte = gte
        self.lte = lte
        self.min_values = min_values
        self.may_be_absent = may_be_absent
        self._sorted: tuple[str, ...] | None = None
        self._hash: int | None = None

    @staticmethod
    def new(key: str, operator: str, values: Iterable[str] = (), min_values: int | None = None) -> Requirement:
        """Build the requirement that a manifest states.

        Raises:
            ValueError: the operator is unknown, or the bound is not a single integer.
        """
        key = labels.ALIASES.get(key, key)
        if operator == IN:
            return Requirement(key, False, frozenset(values), min_values=min_values)
        if operator == NOT_IN:
            return Requirement(key, True, frozenset(values), min_values=min_values, may_be_absent=True)
        if operator == EXISTS:
            return Requirement(key, True, _NOTHING, min_values=min_values)
        if operator == DOES_NOT_EXIST:
            return Requirement(key, False, _NOTHING, min_values=min_values, may_be_absent=True)
        if operator not in OPERATORS:
            raise ValueError(f"{key}: operator {operator!r} is unknown; use one of {', '.join(sorted(OPERATORS))}")
        members = list(values)
        bound = _bound(members[0]) if len(members) == 1 else None
        if bound is None:
            raise ValueError(f"{key}: operator {operator} takes one whole number, not {members}")
        gte = bound + 1 if operator == GT else bound if operator == GTE else None
        lte = bound - 1 if operator == LT else bound if operator == LTE else None
        if (gte is not None and gte > _MAX_INT) or (lte is not None and lte < 0):  # no label value is negative
            return Requirement(key, False, _NOTHING, min_values=min_values)
        return Requirement(key, True, _NOTHING, gte=gte, lte=lte, min_values=min_values)

    @property
    def values(self) -> tuple[str, ...]:
        """The allowed or excluded values, sorted."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self.members))
        return self._sorted

    @property
    def operator(self) -> str:
        """In, NotIn, Exists or DoesNotExist. A requirement with only bounds returns Exists."""
        if self.complement:
            return NOT_IN if self.members else EXISTS
        return IN if self.members else DOES_NOT_EXIST

    def has(self, value: str) -> bool:
        """Whether the label may have this value."""
        return (value in self.members) != self.complement and self._within_bounds(value)

    def is_empty(self) -> bool:
        """Whether no value is allowed: either the label must not exist, or the requirement contradicts itself."""
        return not self.complement and not self.members

    def contradicts(self) -> bool:
        """Whether no node can meet the requirement: the label must exist, but no value is allowed."""
        return not self.complement and not self.members and not self.may_be_absent

    def intersection(self, other: Requirement) -> Requirement:
        """Return the requirement that meets both, with the larger ``min_values`` of the two."""
        if self is other or self == other:
            return self
        gte = self.gte if other.gte is None else other.gte if self.gte is None else max(self.gte, other.gte)
        lte = self.lte if other.lte is None else other.lte if self.lte is None else min(self.lte, other.lte)
        least = max(self.min_values or 0, other.min_values or 0) or None
        absent = self.may_be_absent and other.may_be_absent
        if gte is not None and lte is not None and gte > lte:
            return Requirement(self.key, False, _NOTHING, min_values=least, may_be_absent=absent)
        complement = self.complement and other.complement
        if complement:
            members = self.members | other.members
        elif self.complement:
            members = other.members - self.members
        elif other.complement:
            members = self.members - other.members
        else:
            members = self.members & other.members
        if gte is not None or lte is not None:
            members = frozenset(v for v in members if _between(v, gte, lte))
        if not complement:
            gte = lte = None
        return Requirement(self.key, complement, members, gte=gte, lte=lte, min_values=least, may_be_absent=absent)

    def overlaps(self, other: Requirement) -> bool:
        """Whether a node can meet both: they have a common value, or both accept a missing label."""
        if self.may_be_absent and other.may_be_absent:
            return True
        if not self.complement and not other.complement:
            return not self.members.isdisjoint(other.members)
        if not self.complement:
            return any(other.has(v) for v in self.members)
        if not other.complement:
            return any(self.has(v) for v in other.members)
        return not self.intersection(other).is_empty()

    def to_selectors(self) -> list[dict[str, Any]]:
        """Format the requirement for Kubernetes: one entry, or one for each bound and the set of values."""
        entries: list[dict[str, Any]] = []
        if self.members:
            entries.append({"key": self.key, "operator": self.operator, "values": list(self.values)})
        for operator, bound in ((GTE, self.gte), (LTE, self.lte)):
            if bound is not None:
                entries.append({"key": self.key, "operator": operator, "values": [str(bound)]})
        if not entries:
            entries.append({"key": self.key, "operator": self.operator})
        if self.min_values is not None:
            entries[0]["minValues"] = self.min_values
        return entries

    def _within_bounds(self, value: str) -> bool:
        return (self.gte is None and self.lte is None) or _between(value, self.gte, self.lte)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Requirement) and self._parts() == other._parts()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._parts())
        return self._hash

    def _parts(self) -> tuple[object, ...]:
        absent, least = self.may_be_absent, self.min_values
        return (self.key, self.complement, self.members, self.gte, self.lte, least, absent)

    def __str__(self) -> str:
        text = f"{self.key} {self.operator}"
        if self.members:
            more = len(self.members) - _VALUES_SHOWN
            shown = " ".join(self.values[:_VALUES_SHOWN])
            text += f" [{shown}{f' and {more} others' if more > 0 else ''}]"
        text += f" >={self.gte}" if self.gte is not None else ""
        text += f" <={self.lte}" if self.lte is not None else ""
        return text + (f" minValues {self.min_values}" if self.min_values is not None else "")

    def __repr__(self) -> str:
        return f"Requirement({self})"


def _between(value: str, gte: int | None, lte: int | None) -> bool:
    number = _whole(value)
    return number is not None and (gte is None or number >= gte) and (lte is None or number <= lte)


def hint(key: str, known_keys: Iterable[str]) -> str:
    """Return a hint in parentheses that names the most similar known label; empty if none is similar."""
    close = difflib.get_close_matches(key, sorted(known_keys), n=1, cutoff=_ALIKE)
    return f" (did you mean {close[0]}?)" if close else ""


class Requirements(Mapping[str, Requirement]):
    """Requirements by label. Several requirements on one label are combined into their intersection. Immutable."""

    __slots__ = ("_by_key", "_hash")

    def __init__(self, by_key: dict[str, Requirement] | None = None) -> None:
        """Use this mapping, whose keys must match its requirements. The caller must not change it afterwards."""
        self._by_key = by_key if by_key is not None else {}
        self._hash: int | None = None

    @staticmethod
    def of(*requirements: Requirement) -> Requirements:
        """Combine the requirements."""
        by_key: dict[str, Requirement] = {}
        for requirement in requirements:
            present = by_key.get(requirement.key)
            by_key[requirement.key] = requirement if present is None else present.intersection(requirement)
        return Requirements(by_key)

    @staticmethod
    def from_labels(values: Mapping[str, str]) -> Requirements:
        """Require exactly these labels."""
        return Requirements.of(*(Requirement.new(key, IN, (value,)) for key, value in values.items()))

    @staticmethod
    def from_terms(terms: Iterable[Mapping[str, Any]]) -> Requirements:
        """Parse requirements as in manifests: ``key``, ``operator``, ``values``, ``minValues``.

        Raises:
            ValueError: the operator is unknown, or the bound is not a single integer.
        """
        return Requirements.of(
            *(
                Requirement.new(t["key"], t["operator"], map(str, t.get("values") or ()), t.get("minValues"))
                for t in terms
            )
        )

    def with_(self, other: Requirements | Requirement) -> Requirements:
        """Return the intersection of these requirements and the others, for each label."""
        added = (other,) if isinstance(other, Requirement) else other._by_key.values()
        by_key = dict(self._by_key)
        for requirement in added:
            present = by_key.get(requirement.key)
            by_key[requirement.key] = requirement if present is None else present.intersection(requirement)
        return Requirements(by_key)

    def get(self, key: str, default: object = None) -> Requirement:  # noqa: ARG002
        """Return the requirement on a label. If there is none, return one that allows everything."""
        return self._by_key.get(key) or Requirement(key, True, _NOTHING, may_be_absent=True)

    def conflict(self, other: Requirements, allow_undefined: frozenset[str] = frozenset()) -> str | None:
        """Return why nodes of these requirements cannot meet ``other``; None if they can.

        A label without a requirement here is missing on the node, unless it is in ``allow_undefined``.
        """
        if self.allow(other, allow_undefined):
            return None
        for key in sorted(other._by_key):
            theirs, mine = other._by_key[key], self._by_key.get(key)
            if theirs.contradicts():
                return f"the requirements on label {key} contradict each other"
            if mine is None:
                if key == labels.HOSTNAME and theirs.is_empty():
                    return f"{theirs} is asked for, and every node has that label"
                if not theirs.may_be_absent and key not in allow_undefined:
                    defined_keys = allow_undefined | self._by_key.keys()
                    return (restricted_reason(key) or f"label {key} is not defined") + hint(key, defined_keys)
            elif not mine.overlaps(theirs):
                return f"{theirs} is asked for, {mine} is allowed"
        return None

    def allow(self, other: Requirements, allow_undefined: frozenset[str] = frozenset()) -> bool:
        """Whether nodes of these requirements can meet ``other``, as in `conflict`."""
        for key, requirement in other._by_key.items():
            mine = self._by_key.get(key)
            if requirement.contradicts():
                return False
            if mine is None:
                on_every_node = key == labels.HOSTNAME and requirement.is_empty()
                if on_every_node or not (requirement.may_be_absent or key in allow_undefined):
                    return False
            elif not mine.overlaps(requirement):
                return False
        return True

    def intersects(self, other: Requirements) -> bool:
        """Whether, for every label in both, a node can meet both requirements."""
        smaller, larger = self._by_key, other._by_key
        if len(smaller) > len(larger):
            smaller, larger = larger, smaller
        return all(key not in larger or requirement.overlaps(larger[key]) for key, requirement in smaller.items())

    def to_selectors(self) -> list[dict[str, Any]]:
        """Format all requirements for Kubernetes, sorted by label."""
        return [entry for key in sorted(self._by_key) for entry in self._by_key[key].to_selectors()]

    def labels(self) -> dict[str, str]:
        """Return the labels that have exactly one allowed value."""
        return {
            key: requirement.values[0]
            for key, requirement in sorted(self._by_key.items())
            if not requirement.complement and len(requirement.members) == 1
        }

    def __getitem__(self, key: str) -> Requirement:
        return self._by_key[key]

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def items(self) -> ItemsView[str, Requirement]:
        """The labels and their requirements. A dict's own view is several times as fast as that of `Mapping`."""
        return self._by_key.items()

    def values(self) -> ValuesView[Requirement]:
        """The requirements, as fast as `items`."""
        return self._by_key.values()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Requirements) and self._by_key == other._by_key

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._by_key.values()))
        return self._hash

    def __str__(self) -> str:
        return ", ".join(str(self._by_key[key]) for key in sorted(self._by_key))

    def __repr__(self) -> str:
        return f"Requirements({self})"
