"""Updates whose input is checked: once, when it is sent."""

from __future__ import annotations

from typing import Any, cast

import pytest
from temporalio.exceptions import ApplicationError

from tenon.messages.node import Operator
from workflows.operator_updates import update


def test_an_update_that_was_accepted_is_replayed_although_the_rules_are_stricter_by_now() -> None:
    """A replay calls the handler alone. If it refused the input, the workflow would not do what its history says."""

    @update(description="asks", hint="", why_invalid=lambda _: "Nobody may ask.")
    def ask(_workflow, operator: Operator) -> str:  # type: ignore[no-untyped-def]
        return operator.by

    defined = cast("Any", ask)
    assert defined(None, {"by": "ann"}) == "ann"
    with pytest.raises(ApplicationError, match=r"Nobody may ask\."):
        defined._defn.validator(None, {"by": "ann"})
