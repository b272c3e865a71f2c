"""Settings and feature gates that have no effect in this version, or that cost more than their name suggests."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from tenon.provisioning.gates import AWS_GATES, GATES
from worker.settings.model import Settings, text

WITHOUT_EFFECT: Mapping[str, str] = {
    "ignore_dra_requests": "pods with dynamic resource claims are always left out",
    "disable_controller_warmup": "every replica keeps its caches full, so that another can take over at once",
}
"""What the worker does regardless of the value, by field name."""
GATES_WITHOUT_EFFECT: Mapping[str, str] = {
    "DRANVIDIAGPU": "pods with dynamic resource claims are always left out",
    "DRAEFA": "pods with dynamic resource claims are always left out",
}
"""What the worker does whether or not the gate is on, by gate name."""
COMMITMENTS_IN_VAIN = (
    "ENABLE_COMMITMENTS=true has no effect with ISOLATED_VPC=true: Tenon asks for no Savings Plans there."
)
WITHOUT_WEBHOOK = (
    "DISABLE_WEBHOOK=true: objects of v1beta1 are not converted, and those that are stored as v1beta1 cannot be read. "
    "Leave it out unless the CRDs serve v1 alone."
)


def warnings(settings: Settings, stated_names: Container[str] = frozenset()) -> list[str]:
    """One sentence for each setting and gate that has no effect, or has a cost.

    Default values give no warning, except for a gate in ``stated_names`` that is on: its operator relies on it.
    """
    in_vain = [
        f"{_shown(name, value)} has no effect in this version: {why}."
        for name, value, default, why in _in_vain(settings, stated_names)
        if value != default
    ]
    of_commitments = [COMMITMENTS_IN_VAIN] if settings.enable_commitments and settings.isolated_vpc else []
    of_webhook = [WITHOUT_WEBHOOK] if settings.disable_webhook else []
    return [*in_vain, *_of_repair(settings), *of_commitments, *of_webhook]


def why_none(name: str) -> str:
    """Why a setting (by field name) or a feature gate has no effect. Empty if it has one."""
    return WITHOUT_EFFECT.get(name, GATES_WITHOUT_EFFECT.get(name, ""))


def gate_values(settings: Settings) -> dict[str, bool]:
    """All feature gates, Karpenter's own first, and whether each is on."""
    core = {name: bool(getattr(settings.feature_gates, field)) for name, field in GATES.items()}
    aws = {name: bool(getattr(settings.aws_feature_gates, field)) for name, field in AWS_GATES.items()}
    return core | aws


def _of_repair(settings: Settings) -> Iterator[str]:
    """Yield which settings of node repair have no effect because of another one (N15-144, N15-202, N15-489)."""
    repairs, legacy = settings.feature_gates.node_repair, settings.legacy_node_repair
    if legacy and not repairs:
        yield "LEGACY_NODE_REPAIR=true has no effect without the feature gate NodeRepair."
    if repairs and not legacy:
        return
    why = "with LEGACY_NODE_REPAIR=true" if repairs else "without the feature gate NodeRepair"
    if settings.aws_feature_gates.reboot_for_repair:
        yield f"The feature gate RebootForRepair=true has no effect {why}."
    if settings.feature_gates.terminate_first_repair:
        yield f"The feature gate TerminateFirstRepair=true has no effect {why}."


def _in_vain(settings: Settings, stated_names: Container[str]) -> Iterator[tuple[str, object, object, str]]:
    for name, why in WITHOUT_EFFECT.items():
        yield name.upper(), getattr(settings, name), Settings.model_fields[name].default, why
    defaults = gate_values(Settings(cluster_name="any"))
    for name, on in gate_values(settings).items():
        if name in GATES_WITHOUT_EFFECT:
            default = False if name in stated_names else defaults[name]
            yield f"The feature gate {name}", on, default, GATES_WITHOUT_EFFECT[name]


def _shown(name: str, value: object) -> str:
    return f"{name}={text(value)}"
