"""Spot placement scores that a user states for a simulation: ``us-west-2a=3``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tenon.apis import labels
from tenon.manifests.faults import ManifestError, Source
from tenon.scheduling.model import InstanceType, Pool
from tenon.scheduling.offerings.spot_scores import ScoresOf

_STATED = re.compile(r"(?P<zone>[a-z0-9-]+)=(?P<score>[1-9]|10)")


def problems(texts: Iterable[str], types: Sequence[InstanceType]) -> Iterator[ManifestError]:
    """Yield what is wrong with the scores."""
    zones = {offering.zone for kind in types for offering in kind.offerings}
    for text in texts:
        match = _STATED.fullmatch(text)
        if match is None:
            sentence = f"{ascii(text)[:80]} is no zone with a score from 1 to 10: write one such as us-west-2a=3"
            yield ManifestError(Source("--spot-score"), sentence)
        elif match["zone"] not in zones:
            sentence = f"{match['zone']} is no zone of the catalogue, which has {', '.join(sorted(zones)) or 'none'}"
            yield ManifestError(Source("--spot-score"), sentence)


def stated_scores(texts: Iterable[str], notes: list[str]) -> ScoresOf:
    """Return a function that gives each NodePool the scores of these texts without problems.

    It adds a note about each NodePool that follows scores if there are none.
    """
    scores = {match["zone"]: int(match["score"]) for match in map(_STATED.fullmatch, texts) if match is not None}

    def scores_of(pool: Pool) -> Mapping[str, int]:
        note = f"NodePool {pool.name}: {labels.SPOT_PLACEMENT_SCORES} has an effect with --live or --spot-score only"
        if not scores and note not in notes:
            notes.append(note)
        return scores

    return scores_of
