"""How the NVIDIA driver of a class's nodes shares GPUs among pods, as an annotation of the EC2NodeClass states it.

Karpenter 1.15 plans dynamic resource claims by it. Tenon leaves pods with such claims out, but a class that Karpenter
refuses stays refused here, so that a move changes nothing about it.
"""

from __future__ import annotations

import re

EXCLUSIVE = ("", "disabled")
SHARED = ("memory", "unlimited")
_WHOLE_NUMBER = re.compile(r"\+?0*[1-9][0-9]{0,17}")


def shares_gpus(text: str) -> bool:
    """Return whether pods share GPUs: by memory, without a limit, or in a number of shares.

    Raises:
        ValueError: the text is no mode of sharing. The message says which there are.
    """
    if text in EXCLUSIVE:
        return False
    if text in SHARED or _WHOLE_NUMBER.fullmatch(text):
        return True
    raise ValueError(f"{text[:80]!r} is no mode of sharing: write disabled, memory, unlimited, or a number from 1")
