"""Which PersistentVolumeClaims a pod uses."""

from __future__ import annotations

from tenon.kube.pods import Object


def claims_of(pod: Object) -> list[str]:
    """Names of the pod's claims, in its own namespace; an ephemeral volume's claim is named after pod and volume."""
    names = []
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            names.append(str(volume["persistentVolumeClaim"]["claimName"]))
        elif "ephemeral" in volume:
            names.append(f"{pod['metadata']['name']}-{volume['name']}")
    return names
