"""Updates whose input is checked before they are accepted, and whose senders get a sentence if it is wrong.

An update without a validator that gets no input fails its workflow's task again and again, and one with a validator is
answered with the text of a Python exception. So the SDK leaves the input as it was sent, and `tenon` reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast, get_type_hints

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from tenon.errors import TenonError
    from tenon.messages.base import Message
    from tenon.messages.update_input import UpdateInputError, read_input

Workflow = TypeVar("Workflow")
Input = TypeVar("Input", bound=Message)
Answer = TypeVar("Answer")


class UpdateRefusedError(TenonError, ApplicationError):
    """The answer to an update that is not carried out. Its message is for the sender, who needs no stack."""

    def __init__(self, message: str) -> None:
        super().__init__(message, non_retryable=True)


def _is_valid(_input: object) -> str:
    return ""


def update(
    *, description: str, hint: str, name: str | None = None, why_invalid: Callable[[Any], str] = _is_valid
) -> Callable[
    [Callable[[Workflow, Input], Answer]],
    workflow.UpdateMethodMultiParam[[Workflow, Input], Answer],
]:
    """Make a method with one input an update.

    Args:
        description: what it does, for Temporal's dialogs.
        hint: a sentence with an example of its input, or with who sends it.
        name: its name, if it is not the method's.
        why_invalid: says what is wrong with an input, as a sentence; empty for nothing.
    """

    def decorate(
        handler: Callable[[Workflow, Input], Answer],
    ) -> workflow.UpdateMethodMultiParam[[Workflow, Input], Answer]:
        update_name = name or handler.__name__
        *models, answer = get_type_hints(handler).values()
        (model,) = models

        def read(inputs: tuple[Any, ...]) -> Input:
            try:
                return cast("Input", read_input(update_name, model, inputs, hint))
            except UpdateInputError as error:
                raise UpdateRefusedError(str(error)) from None

        @wraps(handler)
        def receive(self: Workflow, *inputs: Any) -> Answer:
            return handler(self, read(inputs))

        # A replay does not validate: an update that was accepted once stays so, even if the rules become stricter.
        def validate(self: Workflow, *inputs: Any) -> None:  # noqa: ARG001 - the SDK passes the workflow
            if why := why_invalid(read(inputs)):
                raise UpdateRefusedError(why)

        # The SDK decodes by the handler's types: without one for the input, it is what JSON says.
        del receive.__wrapped__
        receive.__annotations__, validate.__annotations__ = {"return": answer}, {}
        defined = workflow.update(name=update_name, description=description)(receive)
        defined.validator(validate)
        return cast("workflow.UpdateMethodMultiParam[[Workflow, Input], Answer]", defined)

    return decorate
