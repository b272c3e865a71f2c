"""The CustomResourceDefinitions as the models generate them, once for all tests of a process: it takes a second."""

from __future__ import annotations

from tenon.apis.crd import custom_resource_definitions

DEFINITIONS = custom_resource_definitions()
"""By file name. No test may change them."""
