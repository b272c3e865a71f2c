"""Why modules with models lack ``from __future__ import annotations``, which all others have."""

from __future__ import annotations
import __future__

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType

from pydantic import BaseModel

import tenon.apis
import tenon.messages
import tenon.simulation
import worker.settings

PACKAGES = (tenon.apis, tenon.messages, tenon.simulation, worker.settings)
PREFIXES = ("tenon.", "worker.settings.")


def _models(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in kind.__subclasses__():
        yield model
        yield from _models(model)


def _module(model: type[BaseModel]) -> ModuleType:
    return sys.modules[model.__module__]


def _is_written_in_its_module(model: type[BaseModel]) -> bool:
    """Whether it is no model that `pydantic.create_model` made while another test ran."""
    return vars(_module(model)).get(model.__name__) is model


def test_pydantic_gets_annotations_that_python_has_evaluated() -> None:
    """Pydantic parses and evaluates each annotation that is a text, which doubles the time to import its module."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    models = [model for model in _models(BaseModel) if model.__module__.startswith(PREFIXES)]
    modules = {_module(model) for model in models if _is_written_in_its_module(model)}
    assert sys.modules["tenon.apis.nodepool"] in modules
    with_texts = [module.__name__ for module in modules if vars(module).get("annotations") is __future__.annotations]
    assert sorted(with_texts) == []
