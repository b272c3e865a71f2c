"""The annotations about nodes that cost far more than usual, because EC2 refuses the cheaper ones.

A NodePool may have its pods wait instead. Consolidation fills no node that was bought in a shortage, and replaces it as
soon as what was refused is available again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tenon.apis import labels

DEFAULT_FACTOR = 2.0
BUY, WAIT = "Buy", "Wait"


def read_price_factor(text: str) -> float:
    """Read the annotation `tenon.sh/shortage-price-factor`.

    Raises:
        ValueError: it cannot be read. The message is a clause for a user.
    """
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not (1 <= factor < math.inf):
        raise ValueError(f"{ascii(text)[:80]} is not a factor: write a number of at least 1, such as 2 or 1.5")
    return factor


def price_factor(annotations: Mapping[str, str]) -> float:
    """Return the factor of a NodePool with these annotations. The default replaces one that cannot be read."""
    try:
        return read_price_factor(annotations[labels.SHORTAGE_PRICE_FACTOR])
    except (KeyError, ValueError):  # the NodePool's condition ValidationSucceeded says why
        return DEFAULT_FACTOR


def read_shortage_policy(text: str) -> str:
    """Read the annotation `tenon.sh/shortage-policy` of a NodePool.

    Raises:
        ValueError: it cannot be read. The message is a clause for a user.
    """
    if text not in (BUY, WAIT):
        raise ValueError(f"{ascii(text)[:80]} is not a policy: write {BUY} or {WAIT}")
    return text


def waits_in_shortage(annotations: Mapping[str, str]) -> bool:
    """Whether the pods of a NodePool with these annotations wait in a shortage. If it cannot be read, they do not."""
    return annotations.get(labels.SHORTAGE_POLICY) == WAIT


def buys_in_shortage(annotations: Mapping[str, str]) -> bool:
    """Whether a pod with these annotations takes a node at any price, whatever its NodePool says."""
    return annotations.get(labels.SHORTAGE_POLICY) == BUY


def is_far_dearer(price: float, usual_price: float, factor: float) -> bool:
    """Whether a price is so high that it is only paid in a shortage."""
    return price > usual_price * factor


def copied_factor(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotation that a NodeClaim copies from its NodePool, for the launch to compare prices."""
    text = annotations.get(labels.SHORTAGE_PRICE_FACTOR)
    return {} if text is None else {labels.SHORTAGE_PRICE_FACTOR: text}


def shortage_annotation(price: float, usual_price: float | None, factor: float) -> dict[str, str]:
    """Return the annotation of a NodeClaim; empty if its price is at most so many times the usual one.

    Args:
        price: its price in dollars an hour.
        usual_price: what the cheapest refused offering costs that would do; None if EC2 refused none.
        factor: how many times the usual price is too much.
    """
    if usual_price is None or not is_far_dearer(price, usual_price, factor):
        return {}
    return {labels.BOUGHT_IN_SHORTAGE: f"{usual_price:.4f}"}


def usual_price(annotations: Mapping[str, str]) -> float:
    """Return what EC2 refused when it sold the node of a NodeClaim, in dollars an hour; 0 if that is not known."""
    try:
        price = float(annotations.get(labels.BOUGHT_IN_SHORTAGE, ""))
    except ValueError:
        return 0.0
    return price if 0 <= price < math.inf else 0.0
