"""Writes failures into Temporal's histories and answers: without a stack if the message says all to its reader.

An operator whose update is refused reads the answer in Temporal's dialog, which shows the stack as well. It names files
of Tenon, and fills the window.
"""

from __future__ import annotations

from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, DefaultFailureConverterWithEncodedAttributes, PayloadConverter

from workflows.operator_updates import UpdateRefusedError


def _without_needless_stack(exception: BaseException) -> BaseException:
    if isinstance(exception, UpdateRefusedError):
        return exception.with_traceback(None)
    return exception


class FailureConverter(DefaultFailureConverter):
    """For clusters without a payload codec."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """Write an exception into a failure."""
        super().to_failure(_without_needless_stack(exception), payload_converter, failure)


class EncodedFailureConverter(DefaultFailureConverterWithEncodedAttributes):
    """For those with a codec, which also encodes the messages of errors, because they name pods and nodes."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """Write an exception into a failure."""
        super().to_failure(_without_needless_stack(exception), payload_converter, failure)
