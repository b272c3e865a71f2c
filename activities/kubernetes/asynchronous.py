"""Imports the asynchronous part of the Kubernetes client library without the synchronous part and the typed models.

The ``__init__.py`` files of the library's packages import 1,500 modules with one class per kind of object. Tenon does
not use these classes, because it handles requests and answers as raw data. They would take 100 MB in each process of a
worker, and most of the import time.

Therefore this module registers the packages without running their ``__init__.py``. A package runs it when code asks for
a name that none of its modules has, so ``kubernetes.client.CoreV1Api`` still works.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

PACKAGES = ("kubernetes", "kubernetes.aio", "kubernetes.aio.client", "kubernetes.aio.client.models")


class _DeferredPackage(ModuleType):
    """A package whose ``__init__.py`` has not run yet."""

    def __getattr__(self, name: str) -> Any:
        # The import system and inspection ask for dunder names that a package may lack.
        if name.startswith("__") or self.__spec__ is None or self.__spec__.loader is None:
            raise AttributeError(name)
        module = f"{self.__name__}.{name}"
        if importlib.util.find_spec(module) is not None:
            return importlib.import_module(module)
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _defer(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None:
        return
    package = importlib.util.module_from_spec(spec)
    package.__class__ = _DeferredPackage
    sys.modules[name] = package
    parent, _, own = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], own, package)


for _name in PACKAGES:
    if _name not in sys.modules:
        _defer(_name)

client: Any = importlib.import_module("kubernetes.aio.client")
client.ApiClient = importlib.import_module("kubernetes.aio.client.api_client").ApiClient
client.Configuration = importlib.import_module("kubernetes.aio.client.configuration").Configuration
config: Any = importlib.import_module("kubernetes.aio.config")  # imports both names from the package above

__all__ = ["client", "config"]
