"""Draws `tenon top` for the documents: ``python -m tests.cli.top_pictures`` writes docs/top-*.svg.

Rich's own picture loads its font from another host, so the pictures name fonts that every system has.
"""

from __future__ import annotations

import asyncio
import io
import re
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from cli.fleet_view.screen import screen, visible_rows
from cli.fleet_view.view_state import ViewState
from cli.fleet_view.watched_fleet import Messages, WatchedFleet
from tenon.ec2.types.instance_types import Prices
from tenon.fleet.document import Fleet
from tenon.fleet.order import GroupBy, SortKey
from tests.cli.fleet_api import serving_fleet, varied_fleet

FOLDER = Path(__file__).parents[2] / "docs"
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, monospace", "DejaVu Sans Mono, Menlo, Consolas, monospace"
)
SCREENS = {
    80: (22, ViewState(sort=SortKey.CPU)),
    120: (24, ViewState(sort=SortKey.CPU, group=GroupBy.POOL)),
    250: (22, ViewState(sort=SortKey.PRICE)),
}
"""By width: height and state."""
KEPT_NODE = "ip-10-0-0-3.eu-central-1.compute.internal"
TRAIN = (
    "NodePool gpu: EC2 refuses 2 on-demand offerings (g4dn.xlarge in eu-central-1a and eu-central-1b): next attempt at "
    "14:05 UTC; NodePool web: needs nvidia.com/gpu, which none of the types that it allows has"
)
FULL = "NodePool web: its limit leaves no room for another node (nodes 5)"
WAITING = {**{f"shop/train-{number}": TRAIN for number in range(3)}, "shop/report-0": FULL}
"""What Tenon's events say of pods."""
ON_DEMAND = {"m5.large": 0.115, "m5.4xlarge": 0.92, "c6g.2xlarge": 0.3104, "r6i.xlarge": 0.304}
SPOT = {"c6g.2xlarge": 0.1253, "r6i.xlarge": 0.1187}


async def read(kubeconfig: Path) -> Fleet:
    """Return the fleet of the fake API server."""
    kube = await Kube.connect(str(kubeconfig))
    watched = WatchedFleet(kube, utc_now)
    await watched.prepare()
    zones = [f"eu-central-1{letter}" for letter in "abc"]
    watched.prices = Prices(ON_DEMAND, {(kind, zone): price for kind, price in SPOT.items() for zone in zones})
    watched.blocked = ["batch-00006"]
    watching = asyncio.create_task(watched.run())
    await watched.wait_synced()
    await watched.events_were_read.wait()
    watched.messages = Messages(pods=WAITING)
    fleet = watched.fleet()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await kube.close()
    return fleet


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder, serving_fleet(varied_fleet(), Path(folder)) as kubeconfig:
        fleet = asyncio.run(read(kubeconfig))
    for width, (height, state) in SCREENS.items():
        state_of_picture = ViewState(sort=state.sort, group=state.group, selected=KEPT_NODE)
        console = Console(record=True, width=width, force_terminal=True, color_system="truecolor", file=io.StringIO())
        for line in screen(fleet, state_of_picture, visible_rows(fleet, state_of_picture), width, height):
            console.print(line, soft_wrap=True, highlight=False)
        path = FOLDER / f"top-{width}.svg"
        path.write_text(console.export_svg(title="tenon top", code_format=FORMAT), encoding="utf-8")


if __name__ == "__main__":
    main()
