"""The metrics of ``tenon shadow``, in a registry of their own: the process is no worker."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from tenon.shadow.report import Document

KARPENTER, TENON = "karpenter", "tenon"


class ShadowMetrics:
    """What a report says, for Prometheus. The label `controller` is karpenter or tenon."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def gauge(name: str, description: str, *labels: str) -> Gauge:
            return Gauge(f"tenon_shadow_{name}", description, labels, registry=self.registry)

        self._rate = gauge("price_per_hour_dollars", "What the nodes cost an hour.", "controller")
        self._dollars = gauge("cost_dollars", "What the nodes have cost since the model began.", "controller")
        self._nodes = gauge("nodes", "The number of nodes.", "controller")
        self._waiting = gauge("waiting_pods", "Pods that wait for a node.", "controller")
        self._moved = gauge("pods_moved", "Pods that were moved since the model began.", "controller")
        self._removed = gauge("nodes_removed", "Nodes that were removed since the model began.", "controller", "reason")
        self._bound = gauge("lower_bound_price_per_hour_dollars", "What any nodes for the same pods cost at least.")
        self._saved = gauge("saved_dollars", "What Tenon would have saved since the model began.")
        self._purchases = gauge("purchases_compared", "Purchases that were planned again.")
        self._unplaced = gauge("unplaced_pods", "Pods that Tenon would not place now.")

    def serve(self, port: int) -> None:
        """Serve the metrics in a thread.

        Raises:
            OSError: the port cannot be used.
        """
        start_http_server(port, registry=self.registry)

    def update(self, report: Document) -> None:
        """Set every metric."""
        rates, cost, disturbance = report["now"], report["cost"], report["disturbance"]
        for controller in (KARPENTER, TENON):
            self._rate.labels(controller).set(rates[f"{controller}PricePerHour"])
            self._dollars.labels(controller).set(cost[f"{controller}Dollars"])
            self._nodes.labels(controller).set(rates[f"{controller}Nodes"])
            self._waiting.labels(controller).set(rates[f"{controller}WaitingPods"])
            self._moved.labels(controller).set(disturbance[controller]["podsMoved"])
            for reason, count in disturbance[controller]["byReason"].items():
                self._removed.labels(controller, reason).set(count)
        if rates["lowerBoundPricePerHour"] is not None:
            self._bound.set(rates["lowerBoundPricePerHour"])
        self._saved.set(cost["savedDollars"])
        self._purchases.set(report["purchases"]["compared"])
        self._unplaced.set(report["risks"]["unplacedCount"])
