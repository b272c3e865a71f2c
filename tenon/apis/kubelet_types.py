"""Checks kubelet settings by the kubelet's own configuration type, which the API server does not know.

A node whose kubelet does not know a setting, or cannot read it, never joins. So a wrong setting must be said on the
class, before instances are launched.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, ValidationError, create_model

from tenon import resources
from tenon.apis.base import ApiModel
from tenon.apis.duration import MAX_SECONDS, go_seconds
from tenon.apis.kubelet_fields import KUBERNETES, TYPES, VALUES
from tenon.sentences import nearest

ROOT = "KubeletConfiguration"
NOT_A_SETTING = f"is not a setting of the kubelet of Kubernetes {KUBERNETES}"


class _Type(ApiModel):
    model_config = ConfigDict(extra="forbid", alias_generator=None)


def _duration(text: str) -> str:
    seconds = go_seconds(text)
    if seconds is None or abs(seconds) >= MAX_SECONDS:
        raise ValueError(f"{text[:64]!r} is not a duration: write numbers with ms, s, m or h, such as 1m30s")
    return text


def _duration_or_nanoseconds(value: Any) -> Any:
    if isinstance(value, str):
        return _duration(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("is neither a duration such as 5s nor a whole number of nanoseconds")
    return value


def _quantity(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("is not a quantity: write a number with an optional suffix, such as 250m or 1Gi")
    resources.parse_quantity(value)
    return value


def _integer(bits: int, *, signed: bool = True) -> Any:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return Annotated[int, Field(ge=least, le=most)]


_SCALARS: Mapping[str, Any] = {
    "bool": bool,
    "string": str,
    "int32": _integer(32),
    "int64": _integer(64),
    "uint32": _integer(32, signed=False),
    "float64": float,
    "duration": Annotated[str, AfterValidator(_duration)],
    "durationOrNanoseconds": Annotated[Any, PlainValidator(_duration_or_nanoseconds)],
    "quantity": Annotated[Any, PlainValidator(_quantity)],
    "time": str,
}
_LIST, _MAP = "[]", "map[string]"


@cache
def _model(type_name: str) -> type[ApiModel]:
    fields: dict[str, Any] = {
        f"field_{number}": (_kind(kind) | None, Field(default=None, alias=name))
        for number, (name, kind) in enumerate(TYPES[type_name].items())
    }
    return create_model(type_name, __base__=_Type, **fields)


def _kind(kind: str) -> Any:
    """Return the Python type of a kind of the table.

    Raises:
        KeyError: the table has a kind that this module does not know yet.
    """
    if kind.startswith(_LIST):
        return list[_kind(kind.removeprefix(_LIST)) | None]  # type: ignore[misc]
    if kind.startswith(_MAP):
        return dict[str, _kind(kind.removeprefix(_MAP)) | None]  # type: ignore[misc]
    if kind in VALUES:
        return Literal[tuple(VALUES[kind])]
    return _model(kind) if kind in TYPES else _SCALARS[kind]


def type_errors(settings: Mapping[str, Any]) -> ValidationError | None:
    """Return what the kubelet's type does not take of settings by their names in a manifest; None if it takes all."""
    try:
        _model(ROOT).model_validate(dict(settings))
    except ValidationError as error:
        return error
    return None


def settings_at(path: Sequence[str | int]) -> Sequence[str]:
    """Return the settings that the kubelet has at a place; none if it is no place for settings."""
    kind = ROOT
    for part in path:
        if isinstance(part, int):
            kind = kind.removeprefix(_LIST)
        elif kind.startswith(_MAP):
            kind = kind.removeprefix(_MAP)
        else:
            kind = TYPES.get(kind, {}).get(part, "")
    return list(TYPES.get(kind, ()))


def unknown_setting(path: Sequence[str | int]) -> str:
    """Say that the kubelet has no such setting, and which one the author may have meant."""
    near = nearest(str(path[-1]), settings_at(path[:-1]))
    return f"{NOT_A_SETTING}: {f'did you mean {near}?' if near else 'leave it out'}"
