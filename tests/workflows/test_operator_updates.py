"""Updates whose input is checked: once, when it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import PayloadCodec
from temporalio.exceptions import ApplicationError

from tenon.messages.node import Operator
from worker.runtime.temporal.temporal_plugin import converter
from workflows.operator_updates import UpdateRefusedError, update


def test_an_update_that_was_accepted_is_replayed_although_the_rules_are_stricter_by_now() -> None:
    """A replay calls the handler alone. If it refused the input, the workflow would not do what its history says."""

    @update(description="asks", hint="", why_invalid=lambda _: "Nobody may ask.")
    def ask(_workflow, operator: Operator) -> str:  # type: ignore[no-untyped-def]
        return operator.by

    defined = cast("Any", ask)
    assert defined(None, {"by": "ann"}) == "ann"
    with pytest.raises(ApplicationError, match=r"Nobody may ask\."):
        defined._defn.validator(None, {"by": "ann"})


class AsItIs(PayloadCodec):
    """Encodes nothing."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)


@pytest.mark.parametrize("codec", [None, AsItIs()], ids=["plain", "encoded"])
def test_the_answer_to_a_refused_update_is_its_sentence_without_a_stack(codec: PayloadCodec | None) -> None:
    """Temporal's dialog shows the stack too, which names files of Tenon and fills the window."""
    data_converter = converter(codec)

    def failure_of(raised: Exception) -> Failure:
        failure = Failure()
        try:
            raise raised
        except ApplicationError as error:
            data_converter.failure_converter.to_failure(error, data_converter.payload_converter, failure)
        return failure

    def text(failure: Failure) -> str:
        return f"{failure.stack_trace}{failure.encoded_attributes.data.decode()}"

    assert "test_operator_updates.py" not in text(failure_of(UpdateRefusedError("Nobody may ask.")))
    assert "test_operator_updates.py" in text(failure_of(ApplicationError("a method failed")))
