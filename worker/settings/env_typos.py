"""Finds environment variables that are not settings but look like misspelled ones.

The environment holds variables of many owners, so an unknown one is not an error by itself. A former Karpenter setting
gives a warning. A name that is one typo away from a setting, or a setting with the prefix KARPENTER_ or TENON_, stops
the worker, because it would otherwise run without a value that its operator set.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from worker.settings.model import Settings

MIN_SIMILARITY = 0.9
"""Similarity, from 0 to 1, from which a name counts as a misspelling of another."""
PREFIXES = ("KARPENTER_", "TENON_")
REMOVED: Mapping[str, str] = {
    "LOGGING_CONFIG": "set LOG_LEVEL, LOG_OUTPUT_PATHS and LOG_ERROR_OUTPUT_PATHS",
    "CONFIG_LOGGING_NAME": "set LOG_LEVEL, LOG_OUTPUT_PATHS and LOG_ERROR_OUTPUT_PATHS",
    "ASSUME_ROLE_ARN": "give the worker's own credentials the rights",
    "ASSUME_ROLE_DURATION": "give the worker's own credentials the rights",
    "LEADER_ELECT": "set DISABLE_LEADER_ELECTION=true to plan without a Lease",
    "INTERRUPTION_QUEUE_NAME": "set INTERRUPTION_QUEUE",
    "WEBHOOK_METRICS_PORT": "all metrics are on METRICS_PORT",
    "AWS_DEFAULT_INSTANCE_PROFILE": "set DEFAULT_INSTANCE_PROFILE for AWSNodeTemplates; EC2NodeClasses name their own",
    "AWS_ENABLE_POD_ENI": "pods that ask for vpc.amazonaws.com/pod-eni are counted on types that have it",
    "AWS_ENI_LIMITED_POD_DENSITY": "write kubelet.maxPods into the EC2NodeClass for another number of pods",
    "AWS_NODE_NAME_CONVENTION": "nodes have the names that they give themselves",
}
"""Karpenter's former settings, and what to do instead."""
_SERVICE_LINK = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)$")
"""Variables that Kubernetes sets for each Service. It also sets NAME_PORT, which is recognized by its value, an
address.
"""


def check_environment(environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """One sentence for each variable that stops the worker, and one for each that the worker ignores."""
    setting_names = [name.upper() for name in Settings.model_fields]
    stops, passed = [], []
    for name in sorted(environment):
        if not environment[name] or name in setting_names:
            continue
        if name in REMOVED:
            passed.append(f"{name} is no longer a setting and is ignored: {REMOVED[name]}.")
        elif (suggestion := _suggestion(name, setting_names)) and not _is_service_link(name, environment[name]):
            stops.append(f"Unknown setting {name}: did you mean {suggestion}? Correct the name, or unset the variable.")
    return stops, passed


def nearest(name: str) -> str:
    """The setting with the most similar name. Empty if no name is similar enough."""
    setting_names = [field_name.upper() for field_name in Settings.model_fields]
    return next(iter(difflib.get_close_matches(name.upper(), setting_names, n=1, cutoff=0.7)), "")


def _suggestion(name: str, setting_names: list[str]) -> str:
    for prefix in PREFIXES:
        if name.removeprefix(prefix) in setting_names:
            return name.removeprefix(prefix)
    return next(iter(difflib.get_close_matches(name, setting_names, n=1, cutoff=MIN_SIMILARITY)), "")


def _is_service_link(name: str, value: str) -> bool:
    return _SERVICE_LINK.search(name) is not None or (name.endswith("_PORT") and "://" in value)
