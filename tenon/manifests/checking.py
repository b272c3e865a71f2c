"""Checks manifest files against the API server's rules and against Karpenter's behavior."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenon.apis.legacy.config_maps import is_settings
from tenon.apis.legacy.conversion import Converted
from tenon.apis.validation import FieldError
from tenon.manifests.autofix import Fix, fixed_line
from tenon.manifests.batch_conversion import convert_batch
from tenon.manifests.documents import Diagnostic, Item, items, read
from tenon.manifests.findings import finding, findings_of, findings_of_others, findings_of_settings
from tenon.manifests.kinds import is_karpenters, unknown_kind
from tenon.manifests.warnings import warnings_of


@dataclass(slots=True)
class Checked:
    """The result of checking a set of files."""

    findings: list[Diagnostic] = field(default_factory=list)
    """Faults and warnings, ordered by file and line."""
    checked: int = 0
    """Number of Karpenter objects."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Number of other objects, by kind."""

    @property
    def faults(self) -> list[Diagnostic]:
        """Findings that the API server or Karpenter would refuse."""
        return [finding for finding in self.findings if not finding.warning]

    @property
    def warnings(self) -> list[Diagnostic]:
        """Findings that are accepted but deserve a look."""
        return [finding for finding in self.findings if finding.warning]


def check(texts: Iterable[tuple[str, str]]) -> Checked:
    """Return every fault and warning in these files.

    Args:
        texts: (file name, text) of each file.
    """
    result = Checked()
    inside: list[Item] = []
    files: dict[str, int] = {}
    for file, text in texts:
        files.setdefault(file, len(files))
        documents, findings = read(file, text)
        result.findings += findings
        for document in documents:
            inside += items(document, result.findings)
    converted = convert_batch([item.body for item in inside])
    sound: list[tuple[Item, Sequence[Mapping[str, Any]]]] = []
    for number, item in enumerate(inside):
        if is_karpenters(item) or is_settings(item.body) or not item.kind or not item.api_version:
            result.checked += 1
            faults = list(_faults(item, converted.get(number)))
        else:
            result.skipped[item.kind] = result.skipped.get(item.kind, 0) + 1
            faults = findings_of_others(item)
        result.findings += faults
        if not faults:
            converted_item = converted.get(number)
            sound.append((item, converted_item.manifests if converted_item else [item.body]))
    made_classes = [body for _, bodies in sound for body in bodies if body.get("kind") == "EC2NodeClass"]
    classes = {str(body["metadata"].get("name")) for body in made_classes}
    classes |= {item.name for item in inside if item.kind in ("EC2NodeClass", "AWSNodeTemplate")}
    result.findings += warnings_of(sound, classes)
    result.findings = sorted(dict.fromkeys(result.findings), key=lambda finding: (files[finding.file], finding.line))
    return result


def _faults(item: Item, converted: Converted | None) -> Iterable[Diagnostic]:
    for name in ("kind", "apiVersion"):
        value = item.body.get(name)
        if not isinstance(value, str) or not value:
            return [finding(item, FieldError(name, "is required" if value in (None, "") else "is not a string"))]
    if is_settings(item.body):
        return findings_of_settings(item)
    if unknown := unknown_kind(item):
        field_name, sentence, nearest_kind = unknown
        line = fixed_line(item, [Fix((field_name,), nearest_kind)]) if nearest_kind else None
        return [finding(item, FieldError(field_name, sentence), line)]
    return findings_of(item, converted)
