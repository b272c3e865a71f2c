"""The asynchronous half of the Kubernetes client library, without the synchronous one and without the typed models.

The first files of the library's packages import 1,500 modules with a class for each kind of object. Requests stay raw
here, so nobody uses those: they take 100 MB in each process of a worker and most of the time that the import takes.
So the packages are made known without running their first files. A package runs its first file when code asks it for
a name that none of its modules has: ``kubernetes.client.CoreV1Api`` is still found.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

PACKAGES = ("kubernetes", "kubernetes.aio", "kubernetes.aio.client", "kubernetes.aio.client.models")


class _DeferredPackage(ModuleType):
    """A package whose first file has not run yet."""

    def __getattr__(self, name: str) -> Any:
        # The import system and inspection look for names with two underscores that a package need not have.
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
