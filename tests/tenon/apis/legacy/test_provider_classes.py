"""What the class of an inline provider is called (LEG-06)."""

from __future__ import annotations

from typing import Any

from tenon.apis.legacy.provider_classes import chosen_by_others, made_from, provider_class


def provisioner(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "Provisioner", "metadata": {"name": name}, "spec": spec}


def test_it_is_the_provisioners_own_name_or_the_next_that_is_free() -> None:
    assert provider_class("a", set()) == "a"
    assert provider_class("a", {"a"}) == "a-provider"
    assert provider_class("a", {"a", "a-provider"}) == "a-provider-2"
    assert provider_class("a", {"a", "a-provider", "a-provider-2"}) == "a-provider-3"


def test_one_that_was_made_keeps_its_name() -> None:
    assert provider_class("a", set(), ["a-provider"]) == "a-provider"
    assert provider_class("a", {"a"}, ["a"]) == "a"
    assert provider_class("a", set(), ["mine-a"]) == "a", "that one is of its kubelet settings"


def test_two_provisioners_never_share_a_class() -> None:
    """Whichever comes first: neither depends on what the other was given."""
    provisioners = [provisioner("a", provider={}), provisioner("a-provider", provider={})]
    occupancy = {"a"}
    first = provider_class("a", occupancy | chosen_by_others("a", provisioners))
    second = provider_class("a-provider", occupancy | chosen_by_others("a-provider", provisioners))
    assert (first, second) == ("a-provider-2", "a-provider")
    kubelet = provisioner("provider", providerRef={"name": "a"}, kubeletConfiguration={"maxPods": 5})
    assert chosen_by_others("a", [provisioners[0], kubelet]) == {"a-provider"}


def test_what_a_worker_made_is_known_by_its_annotation() -> None:
    mark = {"tenon.sh/made-from": "Provisioner a: edit that one"}
    classes: list[dict[str, Any]] = [
        {"metadata": {"name": "a-provider", "annotations": mark}},
        {"metadata": {"name": "a"}},
        {"metadata": "odd"},
    ]
    assert made_from("a", classes) == ["a-provider"]
    assert made_from("b", classes) == []


def test_malformed_specs_choose_no_class() -> None:
    odd: list[dict[str, Any]] = [
        {"kind": "Provisioner", "metadata": {"name": "b"}, "spec": "text"},
        provisioner("c", providerRef="text"),
        provisioner("d", providerRef="text", kubeletConfiguration={"maxPods": 5}),
    ]
    assert chosen_by_others("a", odd) == {"default-d"}
