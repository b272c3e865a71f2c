"""Types that no image of a class boots are not for new nodes."""

from __future__ import annotations

from typing import Any

from tenon.apis import labels
from tenon.apis.ec2nodeclass import AMI
from tenon.ec2.types.bootable_types import kinds_of_images, sentence, without_images
from tests.ec2.samples import AMD, GPU, instance_type, node_class
from tests.tenon.scheduling.builders import catalog, entry

PLAIN, GRAVITON, WITH_GPU = (instance_type(name) for name in ("m5.large", "t4g.small", "g4dn.xlarge"))


def amis(*ids: str) -> list[AMI]:
    return [ami for ami in node_class().status.amis if ami.id in ids]


def by_arch(image_id: str, arch: str) -> AMI:
    terms: list[dict[str, Any]] = [{"key": labels.ARCH, "operator": "In", "values": [arch]}]
    return AMI.model_validate({"id": image_id, "requirements": terms})


def test_a_type_that_no_image_boots_stays_listed_with_its_prices_and_is_not_for_sale() -> None:
    plain, graviton = without_images([PLAIN, GRAVITON], [by_arch("ami-1", "amd64")])
    assert plain is PLAIN, "the scheduling engine remembers what it computed for a type"
    assert not graviton.has_image
    assert not any(offering.available for offering in graviton.offerings)
    assert [offering.price for offering in graviton.offerings] == [offering.price for offering in GRAVITON.offerings]


def test_one_image_that_boots_a_type_is_enough() -> None:
    marked = without_images([PLAIN, GRAVITON, WITH_GPU], amis(AMD, GPU))
    assert [kind.has_image for kind in marked] == [True, False, True]


def test_all_types_are_for_sale_while_the_images_are_not_known() -> None:
    assert without_images([PLAIN, GRAVITON], []) == [PLAIN, GRAVITON]


def test_types_of_a_catalogue_that_states_no_architecture_count_as_of_any() -> None:
    catalogue_entry = entry("m5.large", 2, 8, 0.1)
    del catalogue_entry["requirements"][labels.ARCH], catalogue_entry["requirements"][labels.OS]
    (kind,) = catalog(catalogue_entry)
    assert without_images([kind], [by_arch("ami-1", "arm64")]) == [kind]


def test_a_newer_image_of_the_same_kind_changes_nothing() -> None:
    older, newer = by_arch("ami-1", "amd64"), by_arch("ami-2", "amd64")
    assert kinds_of_images([newer]) == kinds_of_images([older, newer]) == kinds_of_images([older])
    assert kinds_of_images([by_arch("ami-3", "arm64")]) != kinds_of_images([older])


def test_kinds_of_images_differ_by_the_last_of_many_values() -> None:
    """Else a class would keep the types of its earlier images."""

    def of_sizes(*sizes: int) -> AMI:
        term = {"key": f"{labels.AWS_GROUP}/instance-cpu", "operator": "In", "values": [str(size) for size in sizes]}
        return AMI.model_validate({"id": "ami-1", "requirements": [term]})

    assert kinds_of_images([of_sizes(1, 2, 3, 4, 5, 6)]) != kinds_of_images([of_sizes(1, 2, 3, 4, 5, 7)])


def test_the_architecture_is_named_unless_an_image_is_for_it() -> None:
    assert sentence("web", [GRAVITON], {"amd64"}) == "no image of EC2NodeClass web boots arm64"
    assert sentence("web", [WITH_GPU], {"amd64"}) == "no image of EC2NodeClass web boots g4dn.xlarge"
    several = [WITH_GPU, *(instance_type(name) for name in ("inf2.xlarge", "m6i.2xlarge", "p4d.24xlarge"))]
    assert sentence("web", several, {"amd64"}).endswith("boots g4dn.xlarge, inf2.xlarge, m6i.2xlarge and 1 more")
