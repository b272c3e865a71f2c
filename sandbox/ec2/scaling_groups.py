"""Instances of Auto Scaling groups: moto launches and ends them by itself, so the sandbox's book does not have them."""

from __future__ import annotations

from moto.autoscaling.models import autoscaling_backends


def is_in_group(instance_id: str) -> bool:
    """Whether an Auto Scaling group has the instance, in any account and region."""
    return any(
        state.instance.id == instance_id
        for account in list(autoscaling_backends.values())
        for backend in list(account.values())
        for group in list(backend.autoscaling_groups.values())
        for state in group.instance_states
    )
