"""Dataclasses whose methods are compiled at their first call behave like others."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace

import pytest

from cli.quick_dataclasses import compile_on_demand


@pytest.fixture(params=["at once", "on demand"])
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[type, type]:
    """A frozen dataclass with slots, and a subclass of it that is not a dataclass."""
    if request.param == "on demand":
        monkeypatch.setattr(dataclasses, "_create_fn", getattr(dataclasses, "_create_fn", None), raising=False)
        compile_on_demand()

    @dataclass(frozen=True, slots=True)
    class Size:
        cpu: int
        labels: tuple[str, ...] = field(default=(), repr=False)

    class Own(Size):
        pass

    return Size, Own


def test_methods_do_the_same_at_each_call(pair: tuple[type, type]) -> None:
    size_type, own_type = pair
    for _ in range(2):
        first = size_type(1, labels=("a",))
        with pytest.raises(TypeError, match=r"Size\.__init__\(\) missing 1 required positional argument: 'cpu'"):
            size_type()
        assert first == size_type(1, ("a",))
        assert first != size_type(2, ("a",))
        assert first != own_type(1, ("a",))
        assert own_type(1) == own_type(1)
        assert first.__eq__(1) is NotImplemented
        assert hash(first) == hash((1, ("a",)))
        assert len({first, size_type(1, ("a",)), replace(first, cpu=3)}) == 2
        assert repr(first).endswith("Size(cpu=1)")
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'cpu'"):
            first.cpu = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'cpu'"):
            del first.cpu


def test_a_method_is_compiled_once(pair: tuple[type, type]) -> None:
    size_type, _ = pair
    hash(size_type(1))
    compiled = size_type.__dict__["__hash__"]
    hash(size_type(2))
    assert size_type.__dict__["__hash__"] is compiled
    assert "cpu" in compiled.__code__.co_names
