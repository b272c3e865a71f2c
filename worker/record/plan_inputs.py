"""Where the inputs of plans are kept: next to the record, in the first of its sinks that can be read by name."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from activities.record.documents import BucketStore, DocumentStore, FolderStore
from activities.record.plan_inputs import PlanInputStore
from worker.record.s3_sink import folder, s3_client
from worker.settings.record_sinks import FILE, S3, RecordSink, parse_record_sinks

INPUTS = "inputs"


def open_plan_inputs(setting: str, *, cluster: str, region: str) -> PlanInputStore | None:
    """Return the store for the sinks that RECORD_SINKS names; None if none of them can keep documents."""
    stores = (document_store(place, cluster, region) for place in parse_record_sinks(setting))
    store = next((store for store in stores if store is not None), None)
    return PlanInputStore(store) if store is not None else None


def document_store(place: RecordSink, cluster: str, region: str) -> DocumentStore | None:
    """Return the store that belongs to a sink; None if entries go where nothing can be read by name.

    The documents of a file are in a folder with its name and the suffix ``.inputs``, those of a bucket below
    ``PREFIX/CLUSTER/inputs/``.
    """
    if place.kind == FILE:
        return FolderStore(Path(f"{place.path}.{INPUTS}"))
    if place.kind == S3:
        return BucketStore(partial(s3_client, region), place.bucket, f"{folder(place.prefix, cluster)}{INPUTS}/")
    return None
