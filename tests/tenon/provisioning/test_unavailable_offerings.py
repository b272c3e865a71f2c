"""A NodeClaim names the offerings that its launch must avoid."""

from __future__ import annotations

from tenon.apis import labels
from tenon.kube.offerings import OfferingKey
from tenon.provisioning.unavailable_offerings import MAX_NAMED, unavailable_annotation, unavailable_offerings

SPOT = OfferingKey("spot", "m5.large", "us-west-2a")


def test_aws041_a_claim_names_the_refused_offerings_of_its_own_types() -> None:
    others = {OfferingKey("spot", "c5.large", "us-west-2a"), OfferingKey("spot", "", "")}
    written = unavailable_annotation(("m5.large", "m5.xlarge"), {SPOT, *others})
    assert written == {labels.UNAVAILABLE_OFFERINGS: "spot/m5.large/us-west-2a"}
    assert unavailable_offerings(written) == {SPOT}
    assert unavailable_annotation(("m5.xlarge",), {SPOT}) == {}


def test_aws041_aws044_a_claim_names_what_its_placement_group_lacks() -> None:
    full = OfferingKey.refusable("spot", "", "us-west-2a", placement_group="pg-1")
    type_, other = (
        OfferingKey.refusable("spot", name, "us-west-2b", placement_group="pg-1") for name in ("m5.large", "c5.large")
    )
    assert unavailable_offerings(unavailable_annotation(("m5.large",), {full, type_, other})) == {full, type_}


def test_aws041_what_cannot_be_read_avoids_nothing() -> None:
    for text in ("", ",", "spot", "spot//", "spot/m5.large", "a/b/c/d", "a/b/c/d/e", "a///quota/"):
        assert unavailable_offerings({labels.UNAVAILABLE_OFFERINGS: text}) == frozenset()
    assert unavailable_offerings({}) == frozenset()
    many = [OfferingKey("spot", "m5.large", f"zone-{number:04}") for number in range(1000)]
    assert len(unavailable_offerings(unavailable_annotation(["m5.large"], many))) == MAX_NAMED
