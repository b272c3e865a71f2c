"""Chooses the reader for an image, and remembers what it read: machines of one launch template have the same text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Lock

from sandbox.ec2.userdata import al2, bottlerocket, nodeadm, windows
from sandbox.ec2.userdata.settings import BootFacts, KubeletSettings, UserDataRefusedError

REMEMBERED = 2000
FAMILIES = {
    "amazon-eks-node-al2023-": "AL2023",
    "amazon-eks-node-": "AL2",
    "amazon-eks-gpu-node-": "AL2",
    "amazon-eks-arm64-node-": "AL2",
    "bottlerocket-": "Bottlerocket",
    "Windows_Server-": "Windows",
}
"""The family of an image, by the beginning of its name. The first that fits counts."""


class UserDataReader:
    """Reads user data. Thread-safe."""

    def __init__(self, program: Path) -> None:
        """``program`` is `sandbox.nodeadm`'s."""
        self._program = program
        self._read: dict[tuple[str, BootFacts], KubeletSettings | UserDataRefusedError] = {}
        self._lock = Lock()

    def read(self, text: str, facts: BootFacts) -> KubeletSettings:
        """What the kubelet of the machine uses.

        Raises:
            UserDataRefusedError: the machine's first boot refuses the user data.
        """
        key = (text, replace(facts, instance_id="", private_ip="127.0.0.1", zone=""))
        with self._lock:
            kubelet_settings = self._read.get(key)
        if kubelet_settings is None:
            try:
                kubelet_settings = self._settings(text, facts)
            except UserDataRefusedError as error:
                kubelet_settings = error
            with self._lock:
                if len(self._read) >= REMEMBERED:
                    self._read.clear()
                self._read[key] = kubelet_settings
        if isinstance(kubelet_settings, UserDataRefusedError):
            raise UserDataRefusedError(str(kubelet_settings))
        return kubelet_settings

    def _settings(self, text: str, facts: BootFacts) -> KubeletSettings:
        match family_of(facts.image):
            case "Bottlerocket":
                return bottlerocket.read(text, facts)
            case "AL2":
                return al2.read(text, facts)
            case "Windows":
                return windows.read(text)
            case _:
                return nodeadm.read(text, facts, self._program)


def family_of(image: str) -> str:
    """The family of an image. An image with another name is one that its owner made from AL2023."""
    return next((family for start, family in FAMILIES.items() if image.startswith(start)), "AL2023")
