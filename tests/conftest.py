"""Fixtures shared by all tests."""

pytest_plugins = [
    "tests.fuzzing",
    "tests.processor_share",
    "tests.time_limit",
    "tests.machine_overload",
    "tests.machine_lock",
    "tests.temporal_fixture",
    "tests.sandbox_fixture",
    "tests.file_order",
    "tests.audit",
    "tests.costs",
    "tests.collector",
    "tests.isolation",
    "tests.own_log_lines",
]
