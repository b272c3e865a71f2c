"""The setting that says where the record goes, and where `tenon history` reads it."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

NONE = "none"
STDOUT = "stdout"
OTLP = "otlp"
FILE = "file"
S3 = "s3"
FORMS = "stdout, file:///var/log/tenon/record.jsonl, s3://BUCKET/PREFIX, otlp or none"
DEFAULT_MEGABYTES, DEFAULT_FILES = 50, 10
_OPTIONS = {"megabytes": (1, 10_000), "files": (1, 1000)}
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class RecordSink(NamedTuple):
    """One place where entries go."""

    kind: str
    """One of `STDOUT`, `FILE`, `S3` and `OTLP`."""
    path: str = ""
    """The path of the file."""
    bucket: str = ""
    prefix: str = ""
    """The beginning of the keys in the bucket, without a slash at its end; may be empty."""
    megabytes: int = DEFAULT_MEGABYTES
    """The size at which the file is rotated."""
    files: int = DEFAULT_FILES
    """How many files there are at most, including the one that is written."""


def parse_record_sinks(text: str) -> list[RecordSink]:
    """Read a list of sinks, separated by commas.

    Raises:
        ValueError: one of them is none.
    """
    parts = [part.strip() for part in text.split(",")]
    if parts == [NONE]:
        return []
    return [parse_record_sink(part) for part in parts]


def parse_record_sink(text: str) -> RecordSink:
    """Read one sink.

    Raises:
        ValueError: it is none, or its options are out of bounds.
    """
    if text in (STDOUT, OTLP):
        return RecordSink(text)
    try:
        parts = urlsplit(text)
        path = unquote(parts.path)
    except ValueError:
        raise _refused(text) from None
    if parts.fragment or "@" in parts.netloc:
        raise _refused(text)
    if parts.scheme == FILE and not parts.netloc and len(path) > 1 and not path.endswith("/"):
        options = {"megabytes": DEFAULT_MEGABYTES, "files": DEFAULT_FILES} | _options(text, parts.query)
        return RecordSink(FILE, path=path, megabytes=options["megabytes"], files=options["files"])
    if parts.scheme == S3 and _BUCKET.fullmatch(parts.netloc) and not parts.query:
        return RecordSink(S3, bucket=parts.netloc, prefix=path.strip("/"))
    raise _refused(text)


def _options(text: str, query: str) -> dict[str, int]:
    options: dict[str, int] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        least, most = _OPTIONS.get(name, (1, 0))
        if not value.isdecimal() or not least <= int(value) <= most:
            bounds = " and ".join(f"{key}={low} to {high}" for key, (low, high) in _OPTIONS.items())
            raise ValueError(f"{text!r} has an option that cannot be used: a file takes {bounds}")
        options[name] = int(value)
    return options


def _refused(text: str) -> ValueError:
    return ValueError(f"{text!r} is no place for the record: write {FORMS}, several separated by commas")


def checked_record_sinks(text: str) -> str:
    """Return the text if it is a list of sinks.

    Raises:
        ValueError: it is not.
    """
    parse_record_sinks(text)
    return text
