"""AL2023: AWS's own nodeadm reads the user data (`sandbox.nodeadm`), and then the kubelet its files."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.ec2.userdata.archive import check_scripts
from sandbox.ec2.userdata.settings import BootFacts, KubeletSettings, UserDataRefusedError, from_kubelet

SECONDS = 30.0
"""The longest time that nodeadm may take. It takes a few hundredths of a second."""
BUSY = "text file busy"
"""Linux's message when a process runs a file that another one still has open for writing."""
BUSY_TRIES = 20
BUSY_PAUSE = 0.05


def read(text: str, facts: BootFacts, program: Path) -> KubeletSettings:
    """Read user data as an AL2023 image does at its first boot.

    Raises:
        UserDataRefusedError: nodeadm refuses it, or the kubelet what nodeadm wrote, or bash a script in it.
    """
    check_scripts(text)
    files = _nodeadm(text, facts, program)
    config = merge(files["generated"], files["dropIn"] or {})
    return from_kubelet(config, files["flags"] or [], raid0=files["localStorage"] == "RAID0")


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the kubelet's drop-in file over its configuration, as a JSON merge patch: lists are replaced."""
    merged = dict(base)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            entries = merged.get(key)
            merged[key] = merge(entries if isinstance(entries, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _nodeadm(text: str, facts: BootFacts, program: Path) -> dict[str, Any]:
    """Run nodeadm in a folder that stands for the machine: its processors, and its kubelet's version."""
    value = {
        "userData": text,
        "instance": {
            "id": facts.instance_id,
            "region": facts.region,
            "type": facts.instance_type,
            "availabilityZone": facts.zone,
        },
        "address": facts.private_ip,
        "pods": facts.eni_pods,
    }
    with tempfile.TemporaryDirectory(prefix="nodeadm-") as folder:
        machine = Path(folder)
        for name in ("bin", "cpu", "node"):
            (machine / name).mkdir()
        kubelet = machine / "bin" / "kubelet"
        kubelet.write_text(f"#!/bin/sh\necho Kubernetes {facts.kubelet_version}\n", encoding="utf-8")
        kubelet.chmod(0o755)
        for number in range(facts.cpus):
            (machine / "cpu" / f"cpu{number}").touch()
        try:
            answer = _run(program, json.dumps(value), machine)
        except subprocess.TimeoutExpired as error:
            raise UserDataRefusedError(f"nodeadm did not end within {SECONDS:g} s") from error
    if answer.returncode != 0:
        raise UserDataRefusedError(f"nodeadm: {answer.stderr.strip()}")
    files: dict[str, Any] = json.loads(answer.stdout)
    return files


def _run(program: Path, text: str, machine: Path) -> subprocess.CompletedProcess[str]:
    """Run nodeadm, again if Linux refused to run the kubelet's script.

    Instances boot in threads. A child that another thread forks while this one writes the script holds it open until
    the child runs its own program, and Linux runs no file that is open for writing.
    """
    for _ in range(BUSY_TRIES):
        answer = subprocess.run(
            [program],
            input=text,
            env={
                "PATH": str(machine / "bin"),
                "CPU_DIR": str(machine / "cpu"),
                "NODE_DIR": str(machine / "node"),
                "HOME": str(machine),
                "GOMAXPROCS": "1",
                "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            },
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if answer.returncode == 0 or BUSY not in answer.stderr:
            break
        time.sleep(BUSY_PAUSE)
    return answer
