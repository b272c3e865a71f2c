"""A ConversionReview is answered whatever is in it: with all objects converted, or with one sentence."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tenon.apis.versions.parts import UnconvertibleError
from tenon.apis.versions.review import reviewed
from tests.tenon.apis.versions.reviews import claim, review

REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}


def test_objects_come_back_in_their_order_under_the_uid_of_the_request() -> None:
    v1 = {**claim("b"), "apiVersion": "karpenter.sh/v1"}
    answer = reviewed(review(claim("a"), copy.deepcopy(v1), claim("c")), {"p": "5h"})
    response = answer["response"]
    assert (answer["kind"], response["uid"]) == ("ConversionReview", "u-1")
    assert response["result"] == {"status": "Success"}
    assert [converted_object["metadata"]["name"] for converted_object in response["convertedObjects"]] == [
        "a",
        "b",
        "c",
    ]
    assert response["convertedObjects"][0]["spec"]["nodeClassRef"] == REFERENCE
    assert response["convertedObjects"][1] == v1


def test_v1b07_a_nodeclaim_takes_the_age_of_its_pool_once_that_is_known() -> None:
    def found(expiry: dict[str, str] | None, **spec: Any) -> Any:
        return reviewed(review(claim(**spec)), expiry)["response"]

    assert found({"p": "5h"})["convertedObjects"][0]["spec"]["expireAfter"] == "5h"
    assert found({})["convertedObjects"][0]["spec"]["expireAfter"] == "720h"
    assert "NodePool p" in found(None)["result"]["message"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (review(claim(), 5), "one of the objects is not a mapping"),
        (review({**claim(), "spec": "x"}), "NodeClaim n cannot be read as karpenter.sh/v1: spec is not a mapping"),
        (review({**claim(), "metadata": None}), "metadata is not a mapping"),
        (review(claim(nodeClassRef=5)), "nodeClassRef is not a mapping"),
        (review({**claim(), "kind": "Node"}), "cannot be converted"),
        (review(claim(), expectation="karpenter.k8s.aws/v1"), "cannot be converted"),
        (review(claim(), expectation="karpenter.sh/v2"), "cannot be converted"),
        (review(claim(), expectation=None), "has no desiredAPIVersion"),
    ],
)
def test_a_broken_object_fails_its_review_in_a_sentence(value: dict[str, Any], why: str) -> None:
    response = reviewed(value, {})["response"]
    assert response["result"]["status"] == "Failure"
    assert response["uid"] == "u-1"
    assert why in response["result"]["message"]
    assert "\n" not in response["result"]["message"]
    assert "convertedObjects" not in response


@pytest.mark.parametrize("value", [None, [], {}, {"kind": "ConversionReview"}, {**review(), "apiVersion": "v1"}])
def test_what_is_no_review_has_no_answer(value: Any) -> None:
    with pytest.raises(UnconvertibleError, match="ConversionReview"):
        reviewed(value)


@pytest.mark.parametrize("odd", [None, 5, "x", [], [None], [5], {"a": None}])
@pytest.mark.parametrize("field", ["requirements", "kubelet", "resources", "taints"])
def test_odd_values_are_passed_on_for_v1_to_judge(field: str, odd: Any) -> None:
    assert reviewed(review(claim(**{field: odd})), {})["response"]["result"]["status"] == "Success"
