"""Draws a week of schedules for the documents: ``python -m tests.cli.schedule_picture`` writes docs/schedule-week.svg.

The schedule is that of docs/features.md, in the week in which the clock is put forward.
"""

from __future__ import annotations

import io
from datetime import UTC, datetime

from rich.console import Console

from cli.schedule_view.week import print_weeks, weeks_of
from tenon.schedule.week import PoolNow
from tests.cli.top_pictures import FOLDER, FORMAT
from tests.tenon.schedule.schedules import POOL, a_schedule

BEGIN = datetime(2026, 3, 27, 12, tzinfo=UTC)
WORKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri"]
NODES, PRICE = 6, 6 * 0.23


def main() -> None:
    """Write the picture."""
    schedule = a_schedule(
        {"name": "nights", "from": "19:00", "to": "09:00", "days": ["Sun", *WORKDAYS], "closed": True},
        {"name": "weekend", "from": "00:00", "to": "00:00", "days": ["Sat", "Sun"], "closed": True},
        {"name": "hours", "from": "09:00", "to": "19:00", "days": WORKDAYS, "floor": {"nodes": 2}},
        name="working-hours",
    )
    console = Console(record=True, width=62, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    print_weeks(weeks_of([schedule], BEGIN, {POOL: PoolNow(NODES, PRICE)}), console)
    path = FOLDER / "schedule-week.svg"
    path.write_text(console.export_svg(title="tenon schedule preview --week", code_format=FORMAT, unique_id="week"))
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
