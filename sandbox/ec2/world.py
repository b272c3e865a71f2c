"""The state of the sandbox's EC2 that the mock does not hold, in one object that the server creates and resets."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import RLock

from sandbox.ec2.authorization.identities import ACCOUNT
from sandbox.ec2.authorization.judge import Judge
from sandbox.ec2.billing import Billing
from sandbox.ec2.buckets import Buckets
from sandbox.ec2.capacity_reservations import CapacityReservations
from sandbox.ec2.commitments import Commitments
from sandbox.ec2.consistency import AT_ONCE, Consistency, Delays
from sandbox.ec2.eventbridge import EventBridge
from sandbox.ec2.faults import CallLog, FaultTable, Throttle
from sandbox.ec2.fleets import Fleets
from sandbox.ec2.held_calls import HoldTable
from sandbox.ec2.images import KUBERNETES
from sandbox.ec2.instances import InstanceBook
from sandbox.ec2.market import Market
from sandbox.ec2.placement_groups import PlacementGroups
from sandbox.ec2.prices import PriceBook
from sandbox.ec2.region import REGION
from sandbox.ec2.spot_scores import SpotScores
from sandbox.ec2.zonal_shift import ZonalShifts


@dataclass
class ClusterFacts:
    """EKS's description of the cluster that the nodes join."""

    name: str = "sandbox"
    endpoint: str = "https://127.0.0.1:6443"
    certificate_authority: str = ""
    """Base64 of the PEM bundle."""
    version: str = KUBERNETES
    service_cidr: str = "10.96.0.0/16"


@dataclass
class World:
    """The market, the instances, the fleets, and everything that the operator injects."""

    prices: PriceBook
    cluster: ClusterFacts = field(default_factory=ClusterFacts)
    faults: FaultTable = field(default_factory=FaultTable)
    holds: HoldTable = field(default_factory=HoldTable)
    throttle: Throttle = field(default_factory=Throttle)
    buckets: Buckets = field(default_factory=Buckets)
    calls: CallLog = field(default_factory=CallLog)
    judge: Judge = field(default_factory=lambda: Judge(REGION))
    lock: RLock = field(default_factory=RLock)
    delays: Delays = AT_ONCE
    """How late new things are seen, unless a test changes it."""
    internal_errors: list[str] = field(default_factory=list)
    """Calls on which the mock failed, as ``service.Action``. They are defects of the sandbox, never of its user."""

    def __post_init__(self) -> None:
        self.market = Market(self.prices)
        self.book = InstanceBook(self.market)
        self.consistency = Consistency(self.now, self.delays)
        self.reservations = CapacityReservations(self.book)
        self.groups = PlacementGroups(self.book)
        self.zonal_shifts = ZonalShifts()
        self.commitments = Commitments(self.prices)
        self.spot_scores = SpotScores(self.market, self.now)
        self.fleets = Fleets(self.market, self.book, self.consistency, self.reservations, self.groups)
        self.events = EventBridge(ACCOUNT, REGION, self.cluster.name)
        self.book.on_state = self.events.state_changed
        self.billing = Billing(self.prices)
        self.book.on_billing = self.billing.state_changed

    def now(self) -> float:
        """Seconds on the clock that instances live by."""
        return self.book.clock()

    def clear(self) -> None:
        """Clear instances, fleets and everything injected."""
        self.market.clear_capacity()
        self.book.clear()
        self.billing.clear()
        self.fleets.clear()
        self.reservations.clear()
        self.groups.clear()
        self.zonal_shifts.clear()
        self.commitments.clear()
        self.spot_scores.clear()
        self.faults.clear()
        self.holds.release()
        self.throttle.clear()
        self.buckets.fill()
        self.calls.clear()
        self.judge.clear()
        self.consistency.clear()
        self.internal_errors.clear()
