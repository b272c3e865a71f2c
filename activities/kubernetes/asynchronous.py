"""The asynchronous half of the Kubernetes client library, without the synchronous one.

The first file of the package ``kubernetes`` imports the synchronous client, some 700 modules that nobody here uses:
40 MB in each process of a worker and in each command, and half of the time that the import takes. So the package is
made known without running that file. Whoever imports ``kubernetes.client`` or ``kubernetes.config`` still finds them.
"""

from __future__ import annotations

import importlib.util
import sys

if "kubernetes" not in sys.modules:
    _package = importlib.util.find_spec("kubernetes")
    if _package is not None:
        sys.modules["kubernetes"] = importlib.util.module_from_spec(_package)

from kubernetes.aio import client, config

__all__ = ["client", "config"]
