"""AL2: the arguments that a script gives to /etc/eks/bootstrap.sh."""

from __future__ import annotations

import base64
import binascii
import shlex
from dataclasses import replace

from sandbox.ec2.userdata.archive import check_scripts
from sandbox.ec2.userdata.settings import BootFacts, KubeletSettings, UserDataRefusedError, from_kubelet

PROGRAM = "/etc/eks/bootstrap.sh"
OPTIONS = frozenset(
    {
        "--apiserver-endpoint",
        "--aws-api-retry-attempts",
        "--b64-cluster-ca",
        "--cluster-id",
        "--container-runtime",
        "--containerd-config-file",
        "--dns-cluster-ip",
        "--docker-config-json",
        "--enable-docker-bridge",
        "--enable-local-outpost",
        "--ip-family",
        "--kubelet-extra-args",
        "--local-disks",
        "--mount-bpf-fs",
        "--pause-container-account",
        "--pause-container-version",
        "--service-ipv6-cidr",
        "--use-max-pods",
    }
)


def read(text: str, facts: BootFacts) -> KubeletSettings:
    """Read user data as an AL2 image does at its first boot.

    Raises:
        UserDataRefusedError: no script calls bootstrap.sh, or with arguments that it refuses.
    """
    for script in check_scripts(text):
        for line in script.replace("\\\n", " ").splitlines():
            if PROGRAM in line and not line.lstrip().startswith("#"):
                return _bootstrap(line, facts)
    raise UserDataRefusedError(f"no script calls {PROGRAM}")


def _bootstrap(line: str, facts: BootFacts) -> KubeletSettings:
    words = shlex.split(line)
    arguments = words[words.index(PROGRAM) + 1 :]
    value: dict[str, str] = {}
    names = []
    while arguments:
        word = arguments.pop(0)
        if word in OPTIONS:
            if not arguments:
                raise UserDataRefusedError(f"bootstrap.sh: {word} has no value")
            value[word] = arguments.pop(0)
        elif word.startswith("--"):
            raise UserDataRefusedError(f"bootstrap.sh has no option {word}")
        else:
            names.append(word)
    if len(names) != 1:
        raise UserDataRefusedError(f"bootstrap.sh takes one cluster name, and got {names}")
    try:
        base64.b64decode(value.get("--b64-cluster-ca", ""), validate=True)
    except binascii.Error as error:
        raise UserDataRefusedError(f"bootstrap.sh: --b64-cluster-ca is not base64: {error}") from error
    config = {} if value.get("--use-max-pods", "true") == "false" else {"maxPods": facts.eni_pods}
    settings = from_kubelet(
        config, [value.get("--kubelet-extra-args", "")], raid0=value.get("--local-disks") == "raid0"
    )
    dns = value.get("--dns-cluster-ip")
    return replace(settings, cluster_dns=(dns,)) if dns and not settings.cluster_dns else settings
