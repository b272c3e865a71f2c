"""Reads manifests and catalogues from files, folders and standard input."""

from __future__ import annotations

import json
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.simulating import builtin
from tenon.manifests.concatenated_json import with_separators
from tenon.manifests.faults import ManifestError, Source
from tenon.scheduling.model import InstanceType
from tenon.simulation.objects import Objects
from tenon.simulation.reading import read_text

MAX_SIZE = 128 * 2**20
"""Maximum size of one file, in bytes."""
SUFFIXES = (".yaml", ".yml", ".json")
STANDARD_INPUT = "-"
NAME_OF_STANDARD_INPUT = "standard input"

Filenames = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        metavar="FILE",
        help="A manifest file, a folder of manifests, or - for standard input; repeatable.",
    ),
]
"""The option of the commands that read manifests as `read_texts` does."""


def read_files(names: Iterable[str]) -> Objects:
    """Return the objects of all files. A folder stands for the manifests in it."""
    objects = Objects()
    for file, text in read_texts(names, objects.faults):
        read_text(objects, file, text)
    return objects


def read_texts(names: Iterable[str], faults: list[ManifestError]) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file. A folder stands for the manifests in it. An unreadable file is a fault."""
    for name in names:
        for file in _files(name, faults):
            text = _text(file, faults)
            if text is not None and (file == name or not _is_catalogue(file, text)):
                yield file, with_separators(text)


def read_named_texts(names: Iterable[str], faults: list[ManifestError]) -> Iterator[tuple[str, str]]:
    """Like `read_texts`, but with a readable name for standard input, for messages with line numbers."""
    for file, text in read_texts(names, faults):
        yield NAME_OF_STANDARD_INPUT if file == STANDARD_INPUT else file, text


def read_catalogue_file(name: str | None) -> tuple[list[InstanceType], list[ManifestError]]:
    """Return the instance types of a file, or the built-in ones."""
    if name is None:
        return list(builtin.types()), []
    from tenon.simulation.catalogue import read_catalogue  # loads models that the built-in types do not need

    faults: list[ManifestError] = []
    text = _text(name, faults)
    if text is None:
        return [], faults
    try:
        document = json.loads(text)
    except ValueError as error:
        return [], [ManifestError(Source(name), f"is not JSON: {error}")]
    except RecursionError:
        return [], [ManifestError(Source(name), "is not a catalogue: its lists nest too deeply")]
    return read_catalogue(document, Source(name))


def _files(name: str, faults: list[ManifestError]) -> Iterator[str]:
    if not name:
        faults.append(ManifestError(Source("-f"), "names no file"))
        return
    path = Path(name)
    try:
        if name == STANDARD_INPUT or not path.is_dir():
            yield name
            return
        inside = sorted(str(file) for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    except (OSError, ValueError) as error:
        faults.append(ManifestError(Source(name), _why(error)))
        return
    if not inside:
        faults.append(ManifestError(Source(name), "is a folder without manifests (.yaml, .yml, .json)"))
    yield from inside


def _is_catalogue(file: str, text: str) -> bool:
    """True if the file is a catalogue for ``--catalog``, which may be in the same folder as the manifests."""
    if not file.endswith(".json") or '"instanceTypes"' not in text:
        return False
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False  # the manifest reader reports the fault
    return isinstance(document, dict) and "instanceTypes" in document and "kind" not in document


def _text(name: str, faults: list[ManifestError]) -> str | None:
    shown = NAME_OF_STANDARD_INPUT if name == STANDARD_INPUT else name
    try:
        raw = _bytes(name)
        if len(raw) > MAX_SIZE:
            faults.append(ManifestError(Source(shown), f"is larger than {MAX_SIZE // 2**20} MiB: split it"))
            return None
        return raw.decode("utf-16" if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError as error:
        faults.append(
            ManifestError(
                Source(shown),
                f"is not UTF-8 text: byte {error.start} cannot be read; save it as UTF-8, because kubectl replaces "
                "such bytes silently",
            )
        )
    except (OSError, ValueError) as error:
        faults.append(ManifestError(Source(shown), _why(error)))
    return None


def _bytes(name: str) -> bytes:
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise ValueError("it is closed")
        return sys.stdin.buffer.read(MAX_SIZE + 1)
    with open(name, "rb") as file:
        return file.read(MAX_SIZE + 1)


def _why(error: Any) -> str:
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"
