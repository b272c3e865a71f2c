"""How much steady load burstable instance types can carry.

Their price buys a share of the vCPUs. Above that share they spend CPU credits. A plan that replaced one ordinary node
with many burstable nodes would look cheap and run slowly, so nodes are sized by the share. A single node may still be
burstable.
"""

from __future__ import annotations

from tenon.resources import CPU
from tenon.scheduling.model import InstanceType

_BY_SIZE = {"nano": 5, "micro": 10, "small": 20, "medium": 20, "large": 30, "xlarge": 40, "2xlarge": 40}
_T2 = {**_BY_SIZE, "xlarge": 22, "2xlarge": 17}
_PERCENT = {"t1": {"micro": 10}, "t2": _T2, "t3": _BY_SIZE, "t3a": _BY_SIZE, "t4g": _BY_SIZE}


def is_burstable(instance_type: InstanceType) -> bool:
    """Whether the type belongs to a family that runs on CPU credits."""
    return instance_type.name.partition(".")[0] in _PERCENT


def baseline_millicores(instance_type: InstanceType) -> int:
    """The CPU in millicores that the type sustains: its baseline if it is burstable, otherwise its full capacity."""
    family, _, size = instance_type.name.partition(".")
    cpu = instance_type.capacity.get(CPU, 0)
    return cpu * _PERCENT[family].get(size, 20) // 100 if family in _PERCENT else cpu
