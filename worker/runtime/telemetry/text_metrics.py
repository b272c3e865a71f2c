"""Collects, for a scrape, the metrics that the worker's processes have as text: in files, on sockets, and on the ports
of Temporal's client.

What does not answer is left out, because the other metrics say what is wrong.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from prometheus_client import ProcessCollector

from activities.metrics import TEXT_SOCKET_SUFFIX, TEXT_SUFFIX
from worker.runtime.child_processes import PID_SUFFIX
from worker.runtime.telemetry.leader_series import without_terms

ANSWER_SECONDS = 8.0
"""How long a process may take for its next piece. Prometheus waits ten seconds for a scrape by default."""
PIECE = 2**18


def scraped_texts(folder: str) -> Iterator[bytes]:
    """The texts in pieces."""
    for path in sorted(Path(folder).glob(f"*{TEXT_SUFFIX}")):
        with contextlib.suppress(FileNotFoundError):  # the leader has just ended
            yield path.read_bytes()
    for path in sorted(Path(folder).glob(f"*{TEXT_SOCKET_SUFFIX}")):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(str(path))
            while piece := connection.recv(PIECE):
                yield piece


def process_text(folder: str) -> bytes:
    """CPU, memory and open files of the parent and of its children. They differ by the label ``process``."""
    pids = {"parent": os.getpid()}
    for path in Path(folder).glob(f"*{PID_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError, ValueError):
            pids[path.stem] = int(path.read_text())
    lines: dict[str, list[str]] = {}
    for process, pid in sorted(pids.items()):
        for family in ProcessCollector(pid=partial(int, pid), registry=None).collect():
            for sample in family.samples:
                header = f"# HELP {sample.name} {family.documentation}\n# TYPE {sample.name} {family.type}\n"
                series = lines.setdefault(sample.name, [header])
                series.append(f'{sample.name}{{process="{process}"}} {sample.value}\n')
    return "".join(line for series in lines.values() for line in series).encode()


def temporal_text(addresses: Sequence[str]) -> bytes:
    """The metrics of Temporal's client in all processes. They differ by the label ``process``, and have the same names
    of task queues, also if another replica leads.
    """
    texts = []
    for address in addresses:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}/metrics", timeout=2.0) as answer:
            texts.append(answer.read().decode())
    return without_terms(merged(texts)).encode()


def merged(texts: Iterable[str]) -> str:
    """The texts as one, in which each metric is introduced once and its series follow one another."""
    families: dict[str, tuple[list[str], list[str]]] = {}
    for text in texts:
        lines: list[str] = []
        for line in text.splitlines(keepends=True):
            if introduction := _INTRODUCTION.match(line):
                header, lines = families.setdefault(introduction[2], ([], []))
                if len(header) < 2 and not any(earlier.startswith(introduction[1]) for earlier in header):
                    header.append(line)
            else:
                lines.append(line)
    return "".join(line for header, lines in families.values() for line in (*header, *lines))


_INTRODUCTION = re.compile(r"(# (?:HELP|TYPE)) (\S+)")
