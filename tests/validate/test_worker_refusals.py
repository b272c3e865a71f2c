"""What the API server stores and the worker refuses, or what has no effect, is found before anything is applied."""

from __future__ import annotations

import pytest

from tests.validate.findings import BETA, PROVISIONER, faults, warnings
from tests.validate.slips import CLASS, POOL

NODE_CONFIG = """  userData: |
    MIME-Version: 1.0
    Content-Type: multipart/mixed; boundary="//"

    --//
    Content-Type: application/node.eks.aws

    apiVersion: node.eks.aws/v1alpha1
    kind: NodeConfig
    spec:
      kubelet:
        flags:
        - FLAG

    --//--
"""


def test_tnt02_a_flag_with_taints_in_the_user_data_is_refused() -> None:
    text = CLASS + NODE_CONFIG.replace("FLAG", "--register-with-taints=a.io/b=true:NoExecute")
    ((line, path, reason, _),) = faults(text)
    assert (line, path) == (10, "spec.userData")
    assert reason.startswith("userData has the kubelet flag --register-with-taints")
    assert faults(CLASS + NODE_CONFIG.replace("FLAG", "--v=4")) == []


PLAIN = """  userData: |
    apiVersion: node.eks.aws/v1alpha1
    kind: NodeConfig
    spec:
      kubelet:
        flags: FLAGS
"""
SECOND_PART = NODE_CONFIG.replace(
    "    --//\n",
    "    --//\n    Content-Type: text/x-shellscript\n\n    #!/bin/bash\n    echo first\n\n    --//\n",
    1,
)


@pytest.mark.parametrize(
    "user_data",
    [
        PLAIN.replace("FLAGS", "['--register-with-taints=a=b:NoSchedule']"),
        PLAIN.replace("FLAGS", "['--register-with-taints', 'a=b:NoSchedule']"),
        PLAIN.replace("FLAGS", "['--v=4 --register-with-taints=a=b:NoSchedule']"),
        PLAIN.replace("FLAGS", "['-register-with-taints=']"),
        SECOND_PART.replace("FLAG", "--register-with-taints=a=b:NoSchedule"),
    ],
    ids=["no MIME", "two words", "with other flags", "one dash and no taint", "the second part"],
)
def test_tnt02_the_flag_is_found_however_it_is_written(user_data: str) -> None:
    ((line, path, reason, _),) = faults(CLASS + user_data)
    assert (line, path) == (10, "spec.userData")
    assert reason.startswith("userData has the kubelet flag --register-with-taints")


@pytest.mark.parametrize(
    "user_data",
    [
        PLAIN.replace("FLAGS", "['--node-labels=register-with-taints=yes']"),
        PLAIN.replace("flags: FLAGS", "config: {registerWithTaints: [{key: a, effect: NoSchedule}]}"),
        SECOND_PART.replace("FLAG", "--v=4"),
    ],
    ids=["a label of that name", "a setting that the worker's own replaces", "other flags"],
)
def test_user_data_that_leaves_the_taints_is_accepted(user_data: str) -> None:
    assert faults(CLASS + user_data) == []


def test_user_data_that_no_cluster_can_use_is_refused() -> None:
    long = CLASS + f'  userData: "{"x" * 17_000}"\n'
    ((line, path, reason, _),) = faults(long)
    assert (line, path) == (10, "spec.userData")
    assert "but EC2 takes at most 16384: shorten userData" in reason
    toml = CLASS.replace("al2023", "bottlerocket") + "  userData: 'not toml'\n"
    assert [(line, path) for line, path, _, _ in faults(toml)] == [(10, "spec.userData")]


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        (
            "role",
            "arn:aws:iam::123456789012:role/team/KarpenterNodeRole",
            "is an ARN, where IAM takes the name of the role: write KarpenterNodeRole",
        ),
        (
            "instanceProfile",
            "arn:aws-cn:iam::123456789012:instance-profile/nodes",
            "is an ARN, where IAM takes the name of the instance profile: write nodes",
        ),
        (
            "role",
            "arn:aws-us-gov:iam::123456789012:role/NodeRole",
            "is an ARN, where IAM takes the name of the role: write NodeRole",
        ),
        (
            "role",
            "arn:aws:sts::123456789012:assumed-role/NodeRole/session",
            "is an ARN, where IAM takes the name of the role: write NodeRole",
        ),
        (
            "instanceProfile",
            "team/nodes",
            "has a path, where IAM takes the name of the instance profile: write nodes",
        ),
        ("role", "Node Role", "'Node Role' is no name in IAM: use letters, digits and any of _+=,.@-"),
        ("role", "r" * 65, "has 65 characters, and the name of the role has at most 64 in IAM"),
        (
            "instanceProfile",
            "p" * 129,
            "has 129 characters, and the name of the instance profile has at most 128 in IAM",
        ),
    ],
)
def test_the_arn_of_a_role_or_a_profile_is_refused(field: str, value: str, reason: str) -> None:
    text = CLASS.replace("role: nodes", f"{field}: {value}")
    ((line, path, message, _),) = faults(text)
    assert (line, path, message) == (6, f"spec.{field}", reason)


@pytest.mark.parametrize(
    ("field", "value"),
    [("role", "nodes"), ("role", "/team/nodes"), ("role", "team/nodes"), ("instanceProfile", "a_b+c=d,e.f@g-1")],
)
def test_names_that_iam_has_are_accepted(field: str, value: str) -> None:
    """The worker leaves out the path of a role."""
    assert faults(CLASS.replace("role: nodes", f"{field}: {value}")) == []


def test_the_arn_in_an_older_class_is_refused() -> None:
    text = CLASS.replace("karpenter.k8s.aws/v1", "karpenter.k8s.aws/v1beta1").replace(
        "role: nodes", "instanceProfile: arn:aws:iam::123456789012:instance-profile/a/nodes"
    )
    assert "is an ARN, where IAM takes the name of the instance profile: write nodes" in [
        reason for _, _, reason, _ in faults(text)
    ]


@pytest.mark.parametrize("text", [POOL, PROVISIONER, CLASS])
def test_a_name_that_no_node_can_carry_as_a_label_is_refused(text: str) -> None:
    ((line, path, reason, _),) = faults(text.replace("name: default\n", f"name: {'a' * 64}\n", 1))
    assert (line, path) == (4, "metadata.name")
    assert reason.startswith("has 64 characters, and its nodes carry it as a label, whose value has at most 63")
    assert faults(text.replace("name: default\n", f"name: {'a' * 63}\n", 1)) == []


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("eks.amazonaws.com/capacityType", "use karpenter.sh/capacity-type"),
        ("eks.amazonaws.com/nodegroup", "use karpenter.sh/nodepool"),
        ("eks.amazonaws.com/instance-family", "use karpenter.k8s.aws/instance-family"),
        ("eks.amazonaws.com/compute-type", "remove it"),
        ("alpha.eksctl.io/nodegroup-name", "remove it"),
        ("cloud.google.com/gke-nodepool", "remove it"),
    ],
)
def test_labels_of_other_provisioners_are_warned_of(key: str, advice: str) -> None:
    ((line, reason),) = warnings(POOL.replace("karpenter.sh/capacity-type", key))
    assert line == 10
    assert reason.startswith(f"{key} is a label of ")
    assert f"chooses no instance: {advice}" in reason


@pytest.mark.parametrize(
    "text",
    [
        PROVISIONER.replace("karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType"),
        BETA.replace(
            "requirements: []",
            "requirements: [{key: eks.amazonaws.com/capacityType, operator: NotIn, values: [SPOT]}]",
        ),
        POOL.replace("karpenter.sh/capacity-type", "node.kubernetes.io/lifecycle"),
    ],
    ids=["a Provisioner", "v1beta1", "the label of kops"],
)
def test_labels_of_other_provisioners_are_warned_of_in_every_version(text: str) -> None:
    (reason,) = [reason for _, reason in warnings(text) if "chooses no instance" in reason]
    assert "use karpenter.sh/capacity-type, with spot or on-demand" in reason


def test_an_ordinary_label_of_ones_own_is_not_warned_of() -> None:
    assert warnings(POOL.replace("karpenter.sh/capacity-type", "example.com/team")) == []


@pytest.mark.parametrize("schedule", ["0 0 31 2 *", "0 0 30 feb *", "0 0 31 4,6 *"])
def test_a_budget_whose_day_no_month_has_is_warned_of(schedule: str) -> None:
    budget = f"spec:\n  disruption: {{budgets: [{{nodes: '0', schedule: '{schedule}', duration: 1h}}]}}\n"
    ((line, reason),) = warnings(POOL.replace("spec:\n", budget, 1))
    assert line == 6
    assert reason.startswith(f"no date matches {schedule!r}, so this budget can never be in force")


@pytest.mark.parametrize("schedule", ["0 0 29 2 *", "@monthly", "0 9 * * mon-fri"])
def test_a_budget_that_opens_some_day_is_fine(schedule: str) -> None:
    budget = f"spec:\n  disruption: {{budgets: [{{nodes: '0', schedule: '{schedule}', duration: 1h}}]}}\n"
    assert warnings(POOL.replace("spec:\n", budget, 1)) == []


def test_n15_001_a_budget_for_repair_is_accepted() -> None:
    budget = "spec:\n  disruption: {budgets: [{nodes: '1', reasons: [Empty, Unhealthy]}]}\n"
    assert warnings(POOL.replace("spec:\n", budget, 1)) == []


def test_aws062_a_root_volume_that_does_not_hold_the_storage_of_pods_is_warned_of() -> None:
    os_disk = "{deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: 4Gi}}"
    data_disk = "{deviceName: /dev/xvdb, ebs: {volumeSize: 100Gi}}"
    bottlerocket = CLASS.replace("al2023@latest", "bottlerocket@latest")
    devices = f"  blockDeviceMappings:\n    - {data_disk}\n    - {os_disk}\n"
    message = (
        "plans count the size of this volume as ephemeral storage, but Bottlerocket keeps pods' storage on /dev/xvdb: "
        "remove rootVolume"
    )
    assert warnings(bottlerocket + devices) == [(12, message)]
    assert warnings(CLASS + devices) == [], "the root volume of AL2023 has it"
    right_devices = devices.replace("rootVolume: true, ", "").replace("xvdb,", "xvdb, rootVolume: true,")
    assert warnings(bottlerocket + right_devices) == []


def test_pools_whose_classes_have_other_operating_systems_take_different_pods() -> None:
    windows = CLASS.replace("name: default", "name: win").replace("al2023@latest", "windows2022@latest")
    pool = POOL.replace("name: default\n", "name: win\n", 1).replace("name: default}", "name: win}")
    text = f"{POOL}---\n{CLASS}---\n{pool}---\n"
    assert warnings(text + windows) == []
    linux = windows.replace("windows2022", "bottlerocket")
    assert [line for line, _ in warnings(text + linux)] == [4, 27]
