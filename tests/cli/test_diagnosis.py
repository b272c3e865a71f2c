"""The checks of `tenon doctor` that need no cluster: rights, CRDs, NodeClaims, the clock, and AWS in the sandbox."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from botocore.exceptions import ClientError

from activities.ec2 import price_tables, pricing
from activities.ec2.client import Ec2
from activities.kubernetes.resources import CRDS, EC2NODECLASSES, LEASES, NODECLAIMS
from cli.diagnosis import aws, kubernetes
from cli.diagnosis.aws import check_aws
from cli.diagnosis.finding import DoctorFinding, FindingState
from cli.diagnosis.rights import RIGHTS, Right
from sandbox.ec2.authorization.identities import ADMINISTRATOR_KEY, POLICY, environment, worker_key
from tenon.node.registration import NOT_JOINED
from tests.activities.node.fake_kube import Clock, FakeKube
from tests.cli.test_switching import Cluster
from tests.ec2.few_types import offer_few_types
from tests.tenon.apis.generated import DEFINITIONS
from worker.settings import Settings

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


def states(findings: list[DoctorFinding]) -> dict[str, FindingState]:
    return {finding.check: finding.state for finding in findings}


def test_the_rights_are_those_of_the_cluster_role() -> None:
    documents = yaml.safe_load_all(Path("deploy/rbac.yaml").read_text())
    (role,) = [
        document
        for document in documents
        if document["kind"] == "ClusterRole" and document["metadata"]["name"] == "tenon"
    ]
    granted = {
        Right(group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    assert set(RIGHTS) == granted


@pytest.fixture
def kube() -> FakeKube:
    fake_kube = FakeKube(Clock())
    for definition in DEFINITIONS.values():
        if definition["metadata"]["name"] in kubernetes.MAIN_CRDS:
            fake_kube.add(CRDS, copy.deepcopy(definition))
    return fake_kube


async def test_crds_of_this_version_have_no_fault(kube: FakeKube) -> None:
    assert states(await kubernetes.check_definitions(kube)) == {"CRDs": FindingState.OK}  # type: ignore[arg-type]


async def test_a_crd_that_lacks_a_field_is_named_with_the_field(kube: FakeKube) -> None:
    for (plural, _, name), body in kube.objects.items():
        if plural == "customresourcedefinitions" and name == "nodepools.karpenter.sh":
            (v1,) = [version for version in body["spec"]["versions"] if version["name"] == "v1"]
            del v1["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"]
    (finding,) = await kubernetes.check_definitions(kube)  # type: ignore[arg-type]
    assert finding.state is FindingState.WARNING
    assert finding.sentence == "nodepools.karpenter.sh is older than this Tenon: it lacks v1 spec.replicas."
    assert "kubectl apply --server-side --force-conflicts -f deploy/crds" in finding.remedy


async def test_a_missing_crd_is_a_fault() -> None:
    findings = await kubernetes.check_definitions(FakeKube(Clock()))  # type: ignore[arg-type]
    assert [finding.state for finding in findings] == [FindingState.FAULT] * 3


def nodeclaim(name: str, *conditions: tuple[str, str, datetime, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {
            "conditions": [
                {
                    "type": type_,
                    "status": status,
                    "lastTransitionTime": since.isoformat(),
                    "reason": type_,
                    "message": why,
                }
                for type_, status, since, why in conditions
            ]
        },
    }


async def test_the_leader_is_that_of_the_lease_with_the_workers_name() -> None:
    kube = Cluster(Clock())
    spec = {"holderIdentity": "tenon/tenon-1"}
    kube.add(LEASES, {"metadata": {"name": "own", "namespace": "tenon"}, "spec": spec})
    own_lease = Settings(cluster_name="sandbox", leader_election_name="own")
    (leader,) = await kubernetes._leader(kube, own_lease)  # type: ignore[arg-type]
    assert (leader.state, leader.sentence) == (FindingState.OK, "tenon/tenon-1 holds the Lease tenon/own.")
    (leader,) = await kubernetes._leader(kube, Settings(cluster_name="sandbox"))  # type: ignore[arg-type]
    assert leader.state is FindingState.WARNING, "no one holds the Lease with the usual name"


async def test_without_leader_election_no_worker_needs_a_lease(kube: FakeKube) -> None:
    settings = Settings(cluster_name="sandbox", disable_leader_election=True)
    (leader,) = await kubernetes._leader(kube, settings)  # type: ignore[arg-type]
    assert leader.state is FindingState.UNKNOWN
    assert leader.sentence == "DISABLE_LEADER_ELECTION is true, so no Lease shows whether a worker runs."


async def test_a_node_that_never_joins_points_to_the_access_entry(kube: FakeKube) -> None:
    kube.add(NODECLAIMS, nodeclaim("fresh", ("Launched", "True", NOW - timedelta(minutes=1), "")))
    assert states(await kubernetes._claims(kube, NOW)) == {"NodeClaims": FindingState.OK}  # type: ignore[arg-type]
    kube.add(NODECLAIMS, nodeclaim("stuck", ("Launched", "True", NOW - timedelta(minutes=6), "")))
    (claim,) = await kubernetes._claims(kube, NOW)  # type: ignore[arg-type]
    assert (claim.check, claim.state) == ("registration", FindingState.FAULT)
    assert "stuck" in claim.sentence
    assert "fresh" not in claim.sentence
    assert "access entry" in claim.remedy
    kube.add(
        NODECLAIMS,
        nodeclaim(
            "read",
            ("Launched", "True", NOW - timedelta(minutes=6), ""),
            ("Registered", "Unknown", NOW, "no Node has joined for i-1: its console output says that a disk is full"),
        ),
    )
    kube.objects[("nodeclaims", "", "read")]["status"]["conditions"][1]["reason"] = NOT_JOINED
    (claim,) = await kubernetes._claims(kube, NOW)  # type: ignore[arg-type]
    assert "read, stuck" in claim.sentence
    assert "read: no Node has joined for i-1: its console output says that a disk is full." in claim.sentence


async def test_a_refused_launch_is_shown_with_its_reason(kube: FakeKube) -> None:
    kube.add(NODECLAIMS, nodeclaim("refused", ("Launched", "Unknown", NOW, "AWS refused ec2:CreateFleet")))
    (claim,) = await kubernetes._claims(kube, NOW)  # type: ignore[arg-type]
    assert claim.state is FindingState.FAULT
    assert "AWS refused ec2:CreateFleet" in claim.sentence


async def test_a_class_that_is_not_ready_says_why(kube: FakeKube) -> None:
    conditions = [
        {"type": "SubnetsReady", "status": "False", "reason": "SubnetsNotFound", "message": "no subnet has the tags"},
        {"type": "Ready", "status": "False", "reason": "UnhealthyDependents", "message": "SubnetsReady=False"},
    ]
    kube.add(EC2NODECLASSES, {"metadata": {"name": "default"}, "status": {"conditions": conditions}})
    objects = await kubernetes._objects(kube)  # type: ignore[arg-type]
    (wrong,) = [item for item in objects if item.check == "EC2NodeClass"]
    assert wrong.state is FindingState.FAULT
    assert wrong.sentence == "EC2NodeClass default is not Ready. SubnetsReady: no subnet has the tags."
    assert states(objects)["NodePool"] is FindingState.WARNING, "there is none"


@pytest.mark.parametrize(
    ("ahead", "state"),
    [
        (5, FindingState.OK),
        (-5, FindingState.OK),
        (60, FindingState.WARNING),
        (-60, FindingState.WARNING),
        (400, FindingState.FAULT),
        (-400, FindingState.FAULT),
    ],
)
def test_the_clock_is_compared_with_aws(ahead: int, state: FindingState) -> None:
    datetime = format_datetime(NOW - timedelta(seconds=ahead), usegmt=True)
    (result,) = aws._clock({"ResponseMetadata": {"HTTPHeaders": {"date": datetime}}}, NOW)
    assert result.state is state
    assert f"{abs(ahead)} s {'ahead of' if ahead > 0 else 'behind'}" in result.sentence


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from sandbox.ec2.server import start

    with pytest.MonkeyPatch.context() as patch:
        offer_few_types(patch.setattr)
        running = start(tmp_path_factory.mktemp("ec2"))
        yield running
        running.close()


def clients(server: Server, access_key: str) -> Ec2:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(access_key).items():
            patch.setenv(name, value)
        return Ec2("us-west-2", server.endpoint)


def checked(server: Server, access_key: str = "", **settings: Any) -> list[DoctorFinding]:
    output = Settings(cluster_name="sandbox", **settings)
    return check_aws(clients(server, access_key or worker_key("sandbox")), output, [], lambda: datetime.now(UTC))


def test_with_the_policy_of_deploy_nothing_is_wrong(server: Server) -> None:
    findings = checked(server, interruption_queue="sandbox")
    assert states(findings) == {
        "AWS": FindingState.OK,
        "clock": FindingState.OK,
        "rights in AWS": FindingState.OK,
        "prices": FindingState.OK,
        "interruption queue": FindingState.OK,
    }, findings


@pytest.fixture
def without(server: Server) -> Iterator[Callable[[str], None]]:
    """Takes an action out of the worker's policy."""

    def take(action: str) -> None:
        text = POLICY.read_text()
        assert f'"{action}"' in text
        server.world.judge.replace("sandbox", text.replace(f'"{action}"', '"none:None"'))

    yield take
    server.world.judge.replace("sandbox", None)


@pytest.mark.parametrize("action", ["ec2:DescribeImages", "ssm:GetParameter", "pricing:GetProducts"])
def test_a_missing_right_is_named(server: Server, without: Callable[[str], None], action: str) -> None:
    without(action)
    wrong, *more = [
        finding for finding in checked(server, interruption_queue="sandbox") if finding.state is not FindingState.OK
    ]
    assert (wrong.check, wrong.state) == ("rights in AWS", FindingState.FAULT)
    assert f"allow {action}" in wrong.sentence
    assert [item.check for item in more] == (["prices"] if action == "pricing:GetProducts" else [])


def test_aws016_a_missing_right_to_zonal_shifts_is_named(server: Server, without: Callable[[str], None]) -> None:
    """Only with the setting: without it Tenon does not ask ARC."""
    assert states(checked(server, enable_zonal_shift=True))["rights in AWS"] is FindingState.OK
    without("arc-zonal-shift:GetManagedResource")
    (wrong,) = [finding for finding in checked(server, enable_zonal_shift=True) if finding.state is FindingState.FAULT]
    assert "allow arc-zonal-shift:GetManagedResource" in wrong.sentence
    assert states(checked(server))["rights in AWS"] is FindingState.OK


class Allowing:
    """Every service of AWS, as one that allows each call but those that a test refuses. Notes the calls."""

    region = "us-gov-west-1"

    def __init__(self, **codes: str) -> None:
        self.codes = codes
        self.calls: dict[str, dict[str, Any]] = {}
        self.ec2 = self.eks = self.ssm = self.service_quotas = self.pricing = self

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        def call(**arguments: Any) -> dict[str, Any]:
            self.calls[name] = arguments
            if name in self.codes:
                raise ClientError({"Error": {"Code": self.codes[name], "Message": "refused"}}, name)
            return {}

        return call


def test_aws133_govcloud_has_no_price_list_whose_right_could_be_missing() -> None:
    """Its credentials are none for the price list, which is of another partition."""
    govcloud = Allowing(get_products="UnrecognizedClientException")
    (finding,) = aws._rights(govcloud, Settings(cluster_name="sandbox"))  # type: ignore[arg-type]
    assert (finding.check, finding.state) == ("rights in AWS", FindingState.OK)


def test_the_right_to_read_instance_types_is_tried_without_the_name_of_one() -> None:
    """No type is in every region."""
    region = Allowing()
    aws._rights(region, Settings(cluster_name="sandbox"))  # type: ignore[arg-type]
    assert region.calls["describe_instance_types"] == {"MaxResults": 5}


def prices(server: Server, **settings: Any) -> DoctorFinding:
    (result,) = [finding for finding in checked(server, **settings) if finding.check == "prices"]
    return result


def test_aws130_aws132_the_source_of_the_prices_is_named(server: Server) -> None:
    finding = prices(server)
    assert "from the price list of us-west-2, spot prices from EC2 for 4 zones" in finding.sentence
    assert "from the built-in table of us-east-1" in prices(server, isolated_vpc=True).sentence


def test_aws130_prices_that_are_not_known_are_a_warning(server: Server, without: Callable[[str], None]) -> None:
    without("ec2:DescribeSpotPriceHistory")
    finding = prices(server)
    assert finding.state is FindingState.WARNING
    assert finding.sentence.startswith("The spot prices of us-west-2 are unknown (")
    assert finding.sentence.endswith("Tenon uses on-demand prices for spot.")
    assert "NodeOverlay" in finding.remedy


def test_aws130_types_that_the_built_in_table_lacks_are_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenon buys none of them on demand, so a user who waits for such a node finds the reason here."""
    lacking(monkeypatch, "m5.large", "m5.xlarge", "c5.large", "c5.xlarge")
    finding = prices(server, isolated_vpc=True)
    assert finding.state is FindingState.WARNING
    assert "4 instance types have no on-demand price, such as c5.large, c5.xlarge, m5.large, ...: " in finding.sentence
    assert "they are not in the built-in table of us-east-1" in finding.sentence
    assert "NodeOverlay" in finding.remedy


def test_aws130_the_age_of_a_table_and_a_file_that_cannot_be_used_are_findings(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prices.json"
    table = price_tables.built_in_table("us-west-2")
    old = replace(table, region="us-west-2", as_of="2025-01-01", regions=frozenset(["us-west-2"]))
    file.write_text(price_tables.table_text(old))
    finding = prices(server, isolated_vpc=True, price_table=str(file))
    assert finding.state is FindingState.WARNING
    assert f"the table of us-west-2 in {file} (as of 2025-01-01), which is more than 180 days old" in finding.sentence
    assert "`tenon prices us-west-2`" in finding.sentence
    file.write_text(price_tables.table_text(replace(old, as_of=datetime.now(UTC).date().isoformat())))
    assert prices(server, isolated_vpc=True, price_table=str(file)).state is FindingState.OK
    file.write_text("{}")
    finding = prices(server, isolated_vpc=True, price_table=str(file))
    assert finding.state is FindingState.FAULT
    assert finding.sentence.startswith(f"PRICE_TABLE cannot be used: The file {file} is no table of list prices")


def test_aws131_types_that_the_price_list_lacks_are_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is complete, so AWS does not sell them on demand, and nothing is wrong."""
    monkeypatch.delitem(server.world.prices.on_demand, "m5.large")
    finding = prices(server)
    assert finding.state is FindingState.OK
    assert "1 instance type has no on-demand price: m5.large is not in the price list of us-west-2" in finding.sentence


def test_prices_are_checked_without_the_right_to_read_types(server: Server, without: Callable[[str], None]) -> None:
    """That right has a finding of its own."""
    without("ec2:DescribeInstanceTypes")
    assert prices(server).state is FindingState.OK


def lacking(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Take these types out of the built-in tables."""
    built_in_table = price_tables.built_in_table

    def fewer(region: str) -> price_tables.PriceTable:
        table = built_in_table(region)
        return replace(table, on_demand={key: price for key, price in table.on_demand.items() if key not in names})

    monkeypatch.setattr(pricing, "built_in_table", fewer)


def test_a_missing_right_to_the_queue_is_named(server: Server, without: Callable[[str], None]) -> None:
    without("sqs:GetQueueUrl")
    (wrong,) = [
        finding for finding in checked(server, interruption_queue="sandbox") if finding.state is not FindingState.OK
    ]
    assert (wrong.check, wrong.state) == ("interruption queue", FindingState.FAULT)
    assert "allow sqs:getqueueurl" in wrong.sentence.lower()


def test_a_queue_that_does_not_exist_is_a_fault_and_no_queue_a_warning(server: Server) -> None:
    server.world.judge.replace("sandbox", '{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}')
    try:
        assert states(checked(server, interruption_queue="other"))["interruption queue"] is FindingState.FAULT
        assert states(checked(server))["interruption queue"] is FindingState.WARNING
    finally:
        server.world.judge.replace("sandbox", None)


def test_wrong_credentials_end_the_checks_of_aws(server: Server) -> None:
    (finding,) = checked(server, "nobody")
    assert finding.state is FindingState.FAULT
    assert "check the AWS credentials" in finding.sentence


@pytest.mark.refuses("ec2:GetSpotPlacementScores")
def test_the_right_to_read_scores_is_checked_if_a_nodepool_follows_them(server: Server) -> None:
    settings = Settings(cluster_name="sandbox")

    def finding(key: str) -> DoctorFinding:
        findings = check_aws(clients(server, key), settings, [], lambda: datetime.now(UTC), follows_scores=True)
        return next(finding for finding in findings if finding.check == "spot placement scores")

    assert finding(ADMINISTRATOR_KEY).state is FindingState.OK
    refused = finding(worker_key("sandbox"))
    assert refused.state is FindingState.WARNING
    assert "ec2:GetSpotPlacementScores" in refused.sentence
    assert "deploy/iam/spot-scores-policy.json" in refused.remedy


def test_another_cluster_name_is_a_warning(server: Server) -> None:
    """The EKS cluster is not needed if endpoint and CA are set."""
    settings = Settings(cluster_name="elsewhere")
    findings = check_aws(clients(server, ADMINISTRATOR_KEY), settings, [], lambda: datetime.now(UTC))
    assert states(findings)["EKS cluster"] is FindingState.WARNING


@pytest.mark.refuses("iam:GetRole")
def test_who_may_not_read_access_entries_gets_the_command(server: Server) -> None:
    """The worker's policy has no right to read roles, as Karpenter's has none."""
    finding = aws._access(clients(server, worker_key("sandbox")), "sandbox", "KarpenterNodeRole-sandbox")
    assert finding.state is FindingState.UNKNOWN
    assert "aws eks describe-access-entry --cluster-name sandbox" in finding.remedy


def test_a_role_that_does_not_exist_is_a_fault(server: Server) -> None:
    finding = aws._access(clients(server, ADMINISTRATOR_KEY), "sandbox", "KarpenterNodeRole-lost")
    assert finding.state is FindingState.FAULT
    assert "KarpenterNodeRole-lost" in finding.sentence


class AwsAuth:
    """IAM and EKS of a cluster that has no access entries, because it uses the ConfigMap aws-auth only."""

    def __init__(self) -> None:
        self.iam = self.eks = self
        self.roles: list[str] = []

    def get_role(self, *, RoleName: str) -> dict[str, Any]:
        self.roles.append(RoleName)
        return {"Role": {"Arn": f"arn:aws:iam::123456789012:role/nodes/{RoleName}"}}

    def describe_access_entry(self, **_: str) -> dict[str, Any]:
        message = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to do this."
        answer: Any = {
            "Error": {"Code": "InvalidRequestException", "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": 400},
        }
        raise ClientError(answer, "DescribeAccessEntry")


def test_a_cluster_without_access_entries_points_to_the_config_map() -> None:
    """It is no matter of rights. IAM has the role by its name without its path."""
    clients = AwsAuth()
    finding = aws._access(clients, "sandbox", "/nodes/Workers")  # type: ignore[arg-type]
    assert clients.roles == ["Workers"]
    assert finding.state is FindingState.UNKNOWN
    assert "authentication mode must be set" in finding.sentence
    assert "may not read" not in finding.sentence
    assert "aws-auth" in finding.remedy
