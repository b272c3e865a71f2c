"""Windows Server: AWS publishes only the newest image of each, and PowerShell starts EKS's bootstrap script."""

from __future__ import annotations

from collections.abc import Callable

from tenon.apis import labels
from tenon.apis.ami_families import AMIFamily
from tenon.ec2.families.amis import ImageQuery, KubernetesVersion, UnsupportedAliasError, having_label
from tenon.ec2.families.base import GIB, EbsVolume, Family
from tenon.ec2.families.bootstrap import Bootstrap, kubelet_flags


def _images(year: int, first: KubernetesVersion) -> Callable[[KubernetesVersion, str], list[ImageQuery]]:
    def images(kubernetes: KubernetesVersion, _published: str) -> list[ImageQuery]:
        version = f"{kubernetes[0]}.{kubernetes[1]}"
        if kubernetes < first:
            raise UnsupportedAliasError(
                f"there are no Windows {year} images for Kubernetes {version}: the first are for {first[0]}.{first[1]}"
            )
        name = f"Windows_Server-{year}-English-Core-EKS_Optimized-{version}"
        requirements = (having_label(labels.ARCH, "amd64"), having_label(labels.OS, "windows"))
        return [ImageQuery(f"/aws/service/ami-windows-latest/{name}/image_id", requirements)]

    return images


def _user_data(node: Bootstrap) -> str:
    """The user's script comes first, in the same PowerShell block."""
    arguments = {
        "EKSClusterName": node.cluster.name,
        "APIServerEndpoint": node.cluster.endpoint,
        "Base64ClusterCA": node.cluster.ca_bundle,
        "KubeletExtraArgs": " ".join(kubelet_flags(node)),
    }
    if node.cluster_dns:
        arguments["DNSClusterIP"] = node.cluster_dns[0]
    quoted = " ".join("-{} '{}'".format(name, value.replace("'", "''")) for name, value in arguments.items())
    own = node.user_data.strip().removeprefix("<powershell>").removesuffix("</powershell>").strip()
    call = f'& "$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1" {quoted}'
    return "\n".join(["<powershell>", *([own] if own else []), call, "</powershell>"])


def _family(name: AMIFamily, year: int, build: str, first: KubernetesVersion = (1, 0)) -> Family:
    return Family(
        name=name,
        os="windows",
        windows_build=build,
        images=_images(year, first),
        write_user_data=_user_data,
        volumes=(EbsVolume("/dev/sda1", 50 * GIB, root=True),),
        ephemeral_device="/dev/sda1",
        eni_limited_pods=False,
        eni_limited_overhead=False,
        sets_max_pods=True,
        needs_service_range=False,
        unbootable_types=frozenset(),
    )


WINDOWS2019 = _family("Windows2019", 2019, "10.0.17763")
WINDOWS2022 = _family("Windows2022", 2022, "10.0.20348")
WINDOWS2025 = _family("Windows2025", 2025, "10.0.26100", first=(1, 35))
