"""What both clusters cost over time: sums of dollars, and a bounded list of samples for charts."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_GAP_SECONDS = 120.0
"""The longest time between two notes in which the rates count as known. Longer times are not counted."""
SAMPLE_SECONDS = 60.0
MAX_SAMPLES = 4320
"""Three days of minutes. Then every second sample of the older half goes, again and again."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What both cost at a moment, in dollars an hour, and how many nodes they have."""

    theirs: float
    ours: float
    their_nodes: int
    our_nodes: int
    their_waiting: int = 0
    """Pods that wait for capacity."""
    our_waiting: int = 0
    bound: float | None = None
    """What any nodes for the same pods cost at least; None if it was not computed yet."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The rates at a time, in seconds since the epoch."""

    at: float
    rates: Rates


@dataclass(slots=True)
class Ledger:
    """Sums and samples. `note` keeps them up to date."""

    their_dollars: float = 0.0
    our_dollars: float = 0.0
    seconds: float = 0.0
    """How long the sums are about."""
    unobserved_seconds: float = 0.0
    """How long the rates were not known, because nothing watched."""
    begun: float = 0.0
    last: Sample | None = None
    samples: list[Sample] = field(default_factory=list)

    @property
    def saved(self) -> float:
        """What Tenon would have saved, in dollars; negative if it would have paid more."""
        return self.their_dollars - self.our_dollars

    def note(self, now: float, rates: Rates) -> None:
        """Count the time since the last note with the rates of then, and remember these."""
        if self.last is None:
            self.begun = now
        else:
            passed = max(0.0, now - self.last.at)
            if passed > MAX_GAP_SECONDS:
                self.unobserved_seconds += passed
            else:
                self.their_dollars += self.last.rates.theirs * passed / 3600
                self.our_dollars += self.last.rates.ours * passed / 3600
                self.seconds += passed
        self.last = Sample(now, rates)
        if not self.samples or now - self.samples[-1].at >= SAMPLE_SECONDS:
            self.samples.append(self.last)
            if len(self.samples) > MAX_SAMPLES:
                half = len(self.samples) // 2
                self.samples = [*self.samples[:half:2], *self.samples[half:]]
