"""Converts manifest files to v1. Each document is converted, edited in place or passed through unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from textwrap import wrap
from typing import Any

from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.config_maps import is_settings
from tenon.apis.legacy.conversion import Converted, Renamed
from tenon.apis.legacy.global_settings import convert_settings
from tenon.apis.validation import FieldError
from tenon.manifests.batch_conversion import convert_batch, is_older
from tenon.manifests.changes import explain
from tenon.manifests.documents import Diagnostic, Document, Item, items, read
from tenon.manifests.findings import finding, findings_of, findings_of_conversion, findings_of_settings
from tenon.manifests.kinds import KINDS, is_karpenters, unknown_kind
from tenon.manifests.paths import text_of
from tenon.manifests.text_edits import commented_text, edited_body, edited_text, edits_of
from tenon.manifests.trailing_newline import closed
from tenon.manifests.yaml_scalars import UnreadableDocumentError, plain_value
from tenon.manifests.yaml_writer import as_yaml, comment_line, with_comments

CHART: Mapping[str, str] = {
    "BATCH_MAX_DURATION": "settings.batchMaxDuration",
    "BATCH_IDLE_DURATION": "settings.batchIdleDuration",
    "CLUSTER_CA_BUNDLE": "settings.clusterCABundle",
    "CLUSTER_NAME": "settings.clusterName",
    "CLUSTER_ENDPOINT": "settings.clusterEndpoint",
    "ISOLATED_VPC": "settings.isolatedVPC",
    "VM_MEMORY_OVERHEAD_PERCENT": "settings.vmMemoryOverheadPercent",
    "INTERRUPTION_QUEUE": "settings.interruptionQueue",
    "RESERVED_ENIS": "settings.reservedENIs",
    "DEFAULT_INSTANCE_PROFILE": "settings.defaultInstanceProfile",
    "DEFAULT_TAGS": "settings.defaultTags",
    "LOG_LEVEL": "logLevel",
    "LOG_OUTPUT_PATHS": "logOutputPaths",
    "LOG_ERROR_OUTPUT_PATHS": "logErrorOutputPaths",
}
"""Helm value of each setting that a ConfigMap could hold."""
_NO_TEXTS = ("ISOLATED_VPC", "VM_MEMORY_OVERHEAD_PERCENT", "RESERVED_ENIS")
_LISTS = ("LOG_OUTPUT_PATHS", "LOG_ERROR_OUTPUT_PATHS")
_MAX_NOTE_WIDTH = 100


def settings_block(item: Item) -> tuple[str, Sequence[str]]:
    """Return the comment that replaces a settings ConfigMap, and its notes one by one."""
    settings = convert_settings(item.body)
    metadata = item.body["metadata"]
    name = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
    lines = [f"was ConfigMap {name}: settings are environment variables of the worker now"]
    came_from: dict[str, list[str]] = {}
    for note in settings.notes:
        if isinstance(note, Renamed):
            came_from.setdefault(note.variable, []).append(note.old)
    if settings.values:
        lines.append("env:")
        for variable, value in settings.values.items():
            lines.append(f"  - name: {variable} # was {' and '.join(came_from[variable])}")
            lines += [f"    {line}" for line in as_yaml({"value": value}).splitlines()]
        lines.append("or, in the values of the chart:")
        lines += as_yaml(_chart_values(settings.values)).splitlines()
    dropped = [note for note in settings.notes if not isinstance(note, Renamed) or note.variable not in settings.values]
    for note in dropped:
        lines += wrap(note, _MAX_NOTE_WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n" + "".join(f"# {comment_line(line)}".rstrip() + "\n" for line in lines), settings.notes


def _chart_values(values: Mapping[str, str]) -> dict[str, Any]:
    chart_values: dict[str, Any] = {}
    for variable, text in values.items():
        section, _, name = CHART[variable].rpartition(".")
        holder = chart_values.setdefault(section, {}) if section else chart_values
        holder[name] = text.split(",") if variable in _LISTS else _typed(text) if variable in _NO_TEXTS else text
    return chart_values


def _typed(text: str) -> Any:
    try:
        return plain_value(text)
    except UnreadableDocumentError:
        return text


@dataclass(frozen=True, slots=True)
class ConvertedObject:
    """One object of the output: its text, its body (None if it became a comment) and notes on the changes."""

    text: str
    body: JsonObject | None = None
    notes: Sequence[str] = ()
    where: str = ""


@dataclass(slots=True)
class ConvertedManifests:
    """The converted parts of each file, in order, and the faults of the input."""

    files: dict[str, list[ConvertedObject]] = field(default_factory=dict)
    findings: list[Diagnostic] = field(default_factory=list)


def convert(texts: Iterable[tuple[str, str]]) -> ConvertedManifests:
    """Convert everything in these files, given as (name, text), to v1. Faulty objects are reported and left out."""
    output = ConvertedManifests()
    documents_and_items: list[tuple[Document, list[Item]]] = []
    for file, text in texts:
        output.files[file] = []
        documents, findings = read(file, text)
        output.findings += findings
        if not documents and not findings and "#" in text:
            output.files[file].append(ConvertedObject(text))
        for document in documents:
            faults: list[Diagnostic] = []
            inside = list(items(document, faults))
            output.findings += faults
            if not faults:
                documents_and_items.append((document, inside))
    every = [item for _, inside in documents_and_items for item in inside]
    converted = convert_batch([item.body for item in every])
    number = 0
    for document, inside in documents_and_items:
        mine = {index: converted[number + index] for index in range(len(inside)) if number + index in converted}
        number += len(inside)
        output.files[document.file] += _document(document, inside, mine, output.findings)
    return output


def joined(parts: Sequence[ConvertedObject]) -> str:
    """Join the parts into one YAML file."""
    text = ""
    for part in parts:
        written = part.text if text else part.text.lstrip("\n")
        begins = next((line for line in part.text.splitlines() if line.strip() and not line.startswith("#")), "")
        if text and part.body is not None and not begins.startswith("---"):
            text += "---\n"
        text += written if written.endswith("\n") else f"{written}\n"
    return text


def _document(
    document: Document, inside: Sequence[Item], converted: Mapping[int, Converted], findings: list[Diagnostic]
) -> Iterator[ConvertedObject]:
    whole = len(inside) == 1 and inside[0].body is document.value
    faults = {index: _faults(item, converted.get(index)) for index, item in enumerate(inside)}
    edits = {i: [] if is_karpenters(item) else edits_of(item.body) for i, item in enumerate(inside)}
    changed = any(edits.values()) or any(faults.values()) or converted or any(is_settings(item.body) for item in inside)
    if document.value is None:
        if "#" in document.text:
            yield ConvertedObject(document.text)
        return
    if not changed:
        yield ConvertedObject(_as_written(document), document.value)
        return
    if not whole and (head := _head(document)):
        yield ConvertedObject(head)
    for index, item in enumerate(inside):
        where = f"{document.file}:{item.line_of(())}: {item.subject}"
        if faults[index]:
            findings += faults[index]
        elif index in converted:
            result = converted[index]
            for number, changed_manifest in enumerate(explain(item, result.manifests, result.notes)):
                yield ConvertedObject(
                    with_comments(changed_manifest.body, changed_manifest.comments),
                    changed_manifest.body,
                    () if number else result.notes,
                    where,
                )
        elif is_settings(item.body):
            text, notes = settings_block(item)
            yield ConvertedObject(text, None, notes, where)
        elif edits[index]:
            body = edited_body(item.body, edits[index])
            text = edited_text(document, edits[index]) if whole else commented_text(body, edits[index])
            yield ConvertedObject(text, body, [f"{text_of(edit.path)} {edit.comment}" for edit in edits[index]], where)
        else:
            yield ConvertedObject(_as_written(document) if whole else as_yaml(item.body), item.body)


def _head(document: Document) -> str:
    """The comments above a list. The output keeps them but replaces the list with its objects."""
    lines = takewhile(lambda line: not line.strip() or line.startswith(("#", "---")), document.text.splitlines())
    return "".join(f"{line}\n" for line in lines if line.startswith("#"))


def _as_written(document: Document) -> str:
    """The document's text, rewritten only if it could not follow another document in the same file."""
    if document.text.lstrip().startswith("%"):
        return as_yaml(document.value)
    return document.text if document.is_json else closed(document.text, document.value)


def _faults(item: Item, converted: Converted | None) -> Sequence[Diagnostic]:
    """Return the faults that prevent an object's conversion to v1."""
    if not item.api_version and item.kind in KINDS:
        sentence = f"is required, as a string: which version of {item.kind} is this?"
        return [finding(item, FieldError("apiVersion", sentence))]
    if is_karpenters(item) and (unknown := unknown_kind(item)):
        return [finding(item, FieldError(unknown[0], unknown[1]))]
    if is_settings(item.body):
        return findings_of_settings(item)
    if converted is None or not is_older(item.body) or not (findings := findings_of_conversion(item, converted)):
        return []
    places = {(known_finding.line, known_finding.path) for known_finding in findings}
    others = [
        known_finding
        for known_finding in findings_of(item, converted)
        if (known_finding.line, known_finding.path) not in places
    ]
    return sorted([*findings, *others], key=lambda known_finding: known_finding.line)
