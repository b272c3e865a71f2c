"""Each AMI family is whole: a part that is forgotten fails at the import or here."""

from __future__ import annotations

import pytest

from tenon.apis.ami_families import CUSTOM, FAMILY_OF_ALIAS, KUBELET, AMIFamily, require_every_family
from tenon.ec2.families import FAMILIES, al2
from tenon.ec2.families.bootstrap import Bootstrap, node_labels, node_taints
from tenon.ec2.families.cluster import minor_version
from tests.ec2.samples import CLUSTER


@pytest.mark.parametrize("name", FAMILIES)
def test_aws096_a_family_makes_its_nodes_join_in_the_language_of_their_system(name: AMIFamily) -> None:
    """AWS-097, AWS-098, AWS-099, AWS-100."""
    family = FAMILIES[name]
    text = family.user_data(Bootstrap(cluster=CLUSTER, labels=node_labels({}, ""), taints=node_taints((), ())))
    assert (CLUSTER.endpoint in text) == (name != CUSTOM)
    assert ("<powershell>" in text) == (family.os == "windows") == bool(family.windows_build)


@pytest.mark.parametrize("alias", FAMILY_OF_ALIAS)
def test_aws103_an_alias_has_images_in_some_version_of_kubernetes(alias: str) -> None:
    name = FAMILY_OF_ALIAS[alias]
    assert FAMILIES[name].images((1, 32) if name == "AL2" else (1, 36), "latest")


def test_a_table_without_a_family_is_refused() -> None:
    with pytest.raises(TypeError, match=r"remove \['AL2023'\]"):
        require_every_family({name: support for name, support in KUBELET.items() if name != "AL2023"}, "the table")


def test_kubernetes_versions_are_read() -> None:
    assert minor_version("v1.35.2") == minor_version("1.35+") == (1, 35)
    assert al2.has_images("1.32")
    assert not al2.has_images("1.33")
    with pytest.raises(ValueError, match="is not a Kubernetes version"):
        minor_version("latest")
