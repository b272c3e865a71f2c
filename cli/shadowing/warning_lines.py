"""Warnings of the shadow's parts as plain lines on stderr, with what they are about: a person reads them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from activities import loggers

FIELDS = ("resource", "operation", "object", "error")
"""What a line says of a record, in this order."""


class WarningLine(logging.Formatter):
    """Writes 'The watch of a resource failed and is retried: pods, HTTP 503 ...'."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback of an error that Tenon does not expect."""
        values = [str(value) for name in FIELDS if (value := getattr(record, name, ""))]
        line = f"{record.getMessage()}: {', '.join(values)}" if values else record.getMessage()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Show warnings while the context is open, but those about prices: the report's notes say which prices it has."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(WarningLine())
    handler.addFilter(lambda record: record.name != loggers.PRICING.name)
    root = loggers.library("")
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
