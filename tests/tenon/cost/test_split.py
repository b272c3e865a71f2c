"""The price of a node is divided by what its pods request, with idle room, daemons and headroom named apart."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.cost.split import IDLE, STARTING, Consumer, ConsumerKind, Load, PricedNode, load_of, loads_of, shares, split
from tenon.money import nanos
from tests.worker.cache.objects import owned_by, running

GIB = 2**30
PRICE = nanos(1.0)


def consumer(name: str, kind: ConsumerKind = ConsumerKind.PODS) -> Consumer:
    return Consumer(kind, name, "Deployment/web")


def load(name: str, cpu: int = 0, gib: float = 0, kind: ConsumerKind = ConsumerKind.PODS, **others: int) -> Load:
    devices = {key.replace("_", ".", 1).replace("_", "/"): amount for key, amount in others.items()}
    return Load(consumer(name, kind), {"cpu": cpu, "memory": round(gib * GIB), "pods": 1, **devices})


AMOUNTS = st.fixed_dictionaries(
    {
        "cpu": st.integers(0, 200_000),
        "memory": st.integers(0, 2**40),
        "nvidia.com/gpu": st.integers(0, 16),
        "aws.amazon.com/neuron": st.integers(0, 16),
        "aws.amazon.com/neuroncore": st.integers(0, 32),
    }
)
LOADS = st.lists(
    st.builds(
        Load,
        st.builds(
            Consumer,
            st.sampled_from([ConsumerKind.PODS, ConsumerKind.DAEMONS]),
            st.sampled_from("abc"),
            st.sampled_from("xy"),
        ),
        AMOUNTS,
    ),
    max_size=30,
)


@given(st.integers(0, 10**12), AMOUNTS, LOADS, AMOUNTS, st.randoms(use_true_random=False))
def test_shares_add_up_to_the_price_and_do_not_depend_on_the_order(
    price: int, allocatable: dict[str, int], loads: list[Load], headroom: dict[str, int], chance: random.Random
) -> None:
    parts = split(price, allocatable, loads, headroom)
    assert sum(parts.values()) == price
    assert min(parts.values()) >= 0
    shuffled = loads[:]
    chance.shuffle(shuffled)
    assert split(price, allocatable, shuffled, headroom) == parts


def test_a_vcpu_weighs_as_much_as_nine_gib() -> None:
    """The example of AWS's split cost allocation data: m5.xlarge, 4 vCPU and 16 GiB, for a dollar an hour."""
    parts = split(PRICE, {"cpu": 4000, "memory": 16 * GIB}, [load("a", 1000, 4), load("b", 1000, 6)], {})
    assert parts[consumer("a")] == PRICE * 13 // 52
    assert parts[consumer("b")] == round(PRICE * 15 / 52)
    assert parts[IDLE] == round(PRICE * 24 / 52)


def test_an_accelerator_weighs_ten_times_as_much_as_a_vcpu() -> None:
    """Another example of AWS's: p3.16xlarge with 8 GPUs, 64 vCPU and 488 GiB, 10 dollars an hour: 0.5 a GPU."""
    parts = split(
        10 * PRICE, {"cpu": 64_000, "memory": 488 * GIB, "nvidia.com/gpu": 8}, [load("a", nvidia_com_gpu=1)], {}
    )
    whole = 9 * 8 + 0.9 * 64 + 0.1 * 488
    assert parts[consumer("a")] == pytest.approx(10 * PRICE * 9 / whole)


def test_half_the_cores_of_a_neuron_device_cost_half_of_it() -> None:
    node = {"aws.amazon.com/neuron": 2, "aws.amazon.com/neuroncore": 4}
    cores = Load(consumer("cores"), {"aws.amazon.com/neuroncore": 1})
    device = Load(consumer("device"), {"aws.amazon.com/neuron": 1})
    parts = split(PRICE, node, [cores, device], {})
    assert parts == {consumer("cores"): PRICE // 4, consumer("device"): PRICE // 2, IDLE: PRICE // 4}


def test_requests_above_what_is_allocatable_cost_no_more_than_the_node() -> None:
    parts = split(PRICE, {"cpu": 1000}, [load("a", 1500), load("b", 500)], {"cpu": 500})
    assert parts == {consumer("a"): PRICE * 3 // 4, consumer("b"): PRICE // 4}


def test_headroom_is_a_part_of_the_room_that_no_pod_requests() -> None:
    headroom = Consumer(ConsumerKind.HEADROOM)
    parts = split(PRICE, {"cpu": 4000}, [load("a", 1000)], {"cpu": 1000})
    assert parts == {consumer("a"): PRICE // 4, headroom: PRICE // 4, IDLE: PRICE // 2}
    crowded = split(PRICE, {"cpu": 4000}, [load("a", 3000)], {"cpu": 2000})
    assert crowded == {consumer("a"): PRICE * 3 // 4, headroom: PRICE // 4}


def test_a_node_without_pods_is_idle_and_an_instance_without_a_node_is_starting() -> None:
    fields: dict[str, Any] = {"pool": "p", "instance_type": "m5.large", "zone": "a", "capacity_type": "spot"}
    assert shares(PricedNode("n", **fields, price=PRICE, allocatable={"cpu": 2000})) == {IDLE: PRICE}
    assert shares(PricedNode("n", **fields, price=PRICE)) == {IDLE: PRICE}
    assert shares(PricedNode("n", **fields, price=PRICE, is_starting=True)) == {STARTING: PRICE}
    assert shares(PricedNode("n", **fields, price=None, allocatable={"cpu": 2000})) == {}


def test_pods_of_daemonsets_and_static_pods_are_daemons_and_ended_pods_cost_nothing() -> None:
    daemon = running("d", "n", meta={"namespace": "kube-system", **owned_by("DaemonSet")})
    static = running("s", "n", meta={"annotations": {"kubernetes.io/config.mirror": "x"}})
    ended = running("e", "n", status={"phase": "Succeeded"})
    loads = loads_of([daemon, static, ended, running("p", "n")])
    assert [(load.consumer.kind, load.consumer.workload) for load in loads] == [
        (ConsumerKind.DAEMONS, "DaemonSet/o"),
        (ConsumerKind.DAEMONS, ""),
        (ConsumerKind.PODS, ""),
    ]


def test_the_jobs_of_a_cron_job_are_one_workload() -> None:
    owner = {"kind": "Job", "uid": "u", "controller": True, "apiVersion": "batch/v1"}
    by_clock = running("a", "n", meta={"ownerReferences": [{**owner, "name": "report-29384720"}]})
    by_hand = running("b", "n", meta={"ownerReferences": [{**owner, "name": "report-7"}]})
    assert load_of(by_clock).consumer.workload == "CronJob/report"
    assert load_of(by_hand).consumer.workload == "Job/report-7"


def test_a_label_of_the_pods_divides_the_cost() -> None:
    pod = running("a", "n", meta={"labels": {"team": "blue"}})
    assert load_of(pod, "team").consumer.label == "blue"
    assert load_of(pod, "other").consumer.label == ""
    assert load_of(pod).consumer.label == ""
