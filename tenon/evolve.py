"""Copies of immutable models with changed fields, checked.

``model_copy(update=...)`` of pydantic takes any name and any value: a misspelled field is silently lost.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

Model = TypeVar("Model", bound=BaseModel)


def evolve(model: Model, /, **changes: object) -> Model:
    """The model with these fields changed; it stays as it is.

    Raises:
        TypeError: the model has no such field.
        pydantic.ValidationError: a value is not of its field's type.
    """
    fields = type(model).model_fields
    if unknown := sorted(changes.keys() - fields.keys()):
        raise TypeError(f"{type(model).__name__} has no field {', '.join(unknown)}")
    checked = type(model).__pydantic_validator__.validate_python(
        {**dict(model), **changes}, strict=True, by_name=True, by_alias=False
    )
    return model.model_copy(update={name: getattr(checked, name) for name in changes})
