"""Reads what a browser sends: the fields of the page's form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from cli.playing.setup import PageRequest, Setup, decoded
from tenon.errors import TenonError
from tenon.manifests.concatenated_json import with_separators
from tenon.simulation.market import MarketChange

MAX_MANIFESTS = 4 * 2**20
"""Maximum size of the manifests, in bytes."""
MAX_CHANGES = 60
"""How many rows of prices and capacity a form may have."""
MAX_FIELD = 200
"""Maximum length of a field of such a row."""
MANIFESTS, FILES, DISRUPTION, BEFORE, ACTION = "manifests", "files", "disruption", "before", "action"
PLAN, START = "plan", "start"
"""The values of `ACTION`: compare with the plan before, or compare later plans with this one."""
TYPE, CAPACITY, ZONE, PRICE, GONE = "type", "capacity", "zone", "price", "gone"
"""The fields of a row; a number follows."""


class FormError(TenonError):
    """The form cannot be used. The message is one sentence."""


def request_of(fields: Mapping[str, str], files: Sequence[tuple[str, bytes]]) -> PageRequest:
    """Return what the form asks for.

    Args:
        fields: of the form.
        files: name and content of each uploaded file.

    Raises:
        FormError: it cannot be used.
    """
    manifests = joined_manifests([("", _lines(fields.get(MANIFESTS, ""))), *_texts(files)])
    if len(manifests.encode()) > MAX_MANIFESTS:
        raise FormError(
            f"The manifests are larger than {MAX_MANIFESTS // 2**20} MiB: leave out what has no part in it."
        )
    setup = Setup(manifests, tuple(_changes(fields)), DISRUPTION in fields)
    if fields.get(ACTION) == START or not fields.get(BEFORE):
        return PageRequest(setup)
    try:
        return PageRequest(setup, decoded(fields[BEFORE]))
    except (msgspec.MsgspecError, ValueError):
        raise FormError("The plan to compare with cannot be read: load an example again.") from None


def joined_manifests(texts: Sequence[tuple[str, str]]) -> str:
    """Return the texts as one, each below its name, as documents of their own."""
    parts = [f"# {name}\n{text.strip()}" if name else text.strip() for name, text in texts if text.strip()]
    return "\n---\n".join(parts) + "\n" if parts else ""


def _lines(text: str) -> str:
    """Return the text with line breaks as files have them; browsers send two characters for each."""
    return text.replace("\r\n", "\n")


def _texts(files: Sequence[tuple[str, bytes]]) -> Iterator[tuple[str, str]]:
    for name, content in files:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise FormError(f"{name} is not UTF-8 text: byte {error.start} cannot be read.") from None
        yield " ".join(name.split()), with_separators(_lines(text))


def _changes(fields: Mapping[str, str]) -> Iterator[MarketChange]:
    for number in range(MAX_CHANGES):
        value = {key: fields.get(f"{key}-{number}", "").strip() for key in (TYPE, CAPACITY, ZONE, PRICE, GONE)}
        if any(len(text) > MAX_FIELD for text in value.values()):
            raise FormError(f"Row {number + 1} of prices and capacity has more than {MAX_FIELD} characters in a field.")
        price = value[PRICE].removeprefix("$").strip()
        if value[TYPE] and (price or value[GONE]):
            yield MarketChange(value[TYPE], value[CAPACITY], value[ZONE], price, bool(value[GONE]))
