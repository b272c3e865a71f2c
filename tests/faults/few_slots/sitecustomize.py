"""On the PYTHONPATH of a worker: its io process has ten slots for activities, in place of at least fifty.

So a dozen disruption commands show what hundreds of them do to a worker. Python imports this before anything else.
"""

from __future__ import annotations

from worker.runtime import concurrency

concurrency.MIN = concurrency.Concurrency(10, 10, 50, 500)
