"""Generates the CustomResourceDefinitions from the API models, so that each field is defined in one place."""

from __future__ import annotations

from tenon.apis.crd_kinds import RESOURCES, CustomResource, PrinterColumn, Version
from tenon.apis.json_object import JsonObject
from tenon.apis.structural import root_schema, stored_schema

CONVERSION: JsonObject = {
    "strategy": "Webhook",
    "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "tenon", "namespace": "tenon", "path": "/convert", "port": 8443}},
    },
}
"""How the API server converts objects between versions: it calls the worker, which writes its own CA bundle here."""


def custom_resource_definitions(*, checked_by_tenon: bool = False) -> dict[str, JsonObject]:
    """Return every CustomResourceDefinition by file name.

    ``checked_by_tenon``: include what Tenon checks and the API server does not, for documents. No API server takes
    such a definition.
    """
    return {resource.file_name: _definition(resource, checked_by_tenon) for resource in RESOURCES}


def _definition(resource: CustomResource, checked_by_tenon: bool) -> JsonObject:
    names: JsonObject = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "categories": [resource.category],
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    stored, *_ = resource.versions
    schema = root_schema if checked_by_tenon else stored_schema
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": resource.scope,
            **({"conversion": CONVERSION} if len(resource.versions) > 1 else {}),
            "versions": [
                {**_version(version, stored=version is stored), "schema": {"openAPIV3Schema": schema(version.model)}}
                for version in resource.versions
            ],
        },
    }


def _version(version: Version, *, stored: bool) -> JsonObject:
    return {
        "name": version.name,
        "served": True,
        "storage": stored,
        "additionalPrinterColumns": [_printer_column(column) for column in version.columns],
        "subresources": {"status": {}, **({"scale": version.scale} if version.scale else {})},
    }


def _printer_column(column: PrinterColumn) -> JsonObject:
    described: JsonObject = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return described | ({"priority": 1} if column.wide else {})
