"""Answers a ConversionReview (apiextensions.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenon.apis.json_object import JsonObject, field_at
from tenon.apis.versions.objects import converted
from tenon.apis.versions.parts import UnconvertibleError

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "ConversionReview"
MAX_MESSAGE = 1000
MAX_OBJECTS = 2000
"""The API server sends one object, or one page of a list. Larger requests are treated as malicious and rejected."""


def reviewed(review: Any, expiry: Mapping[str, str] | None = None) -> JsonObject:
    """Return the review with all of its objects converted, or with a sentence that says which object failed and why.

    Args:
        review: the request as JSON. Its objects are changed in place.
        expiry: expireAfter by NodePool name; None if it is not known yet.

    Raises:
        UnconvertibleError: the request is not a ConversionReview, so it cannot be answered with one.
    """
    request = review.get("request") if isinstance(review, dict) and review.get("kind") == KIND else None
    if not isinstance(request, dict) or review.get("apiVersion") != API_VERSION:
        raise UnconvertibleError(f"the body is not a {KIND} of {API_VERSION} with a request")
    return {"apiVersion": API_VERSION, "kind": KIND, "response": _response(request, expiry)}


def _response(request: JsonObject, expiry: Mapping[str, str] | None) -> JsonObject:
    uid, api_version, objects = request.get("uid"), request.get("desiredAPIVersion"), request.get("objects")
    if not isinstance(api_version, str) or not isinstance(objects, list):
        return _failure(uid, "the request has no desiredAPIVersion, or its objects are not a list")
    if len(objects) > MAX_OBJECTS:
        return _failure(uid, f"the request has {len(objects)} objects: at most {MAX_OBJECTS} are converted at once")
    converted_objects = []
    for body in objects:
        try:
            if not isinstance(body, dict):
                raise UnconvertibleError("one of the objects is not a mapping")
            converted_objects.append(converted(body, api_version, expiry))
        except UnconvertibleError as error:
            return _failure(uid, f"{_named(body)} cannot be read as {api_version}: {error}")
    return {"uid": uid, "convertedObjects": converted_objects, "result": {"status": "Success"}}


def _failure(uid: Any, message: str) -> JsonObject:
    return {"uid": uid, "result": {"status": "Failure", "message": message[:MAX_MESSAGE]}}


def _named(body: Any) -> str:
    name = field_at(body, "metadata", "name")
    return f"{body.get('kind')} {name}" if name else "an object"
