"""What the operator can inject, and what the front makes of the mock's failures."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from sandbox.ec2.faults import CallLog, Throttle
from tests.sandbox.ec2.conftest import Aws, Clock

pytestmark = pytest.mark.integration


def test_injected_errors_end_after_their_count(aws: Aws) -> None:
    aws.admin.fault("CreateFleet", "InternalError", status=500, count=2)
    for _ in range(2):
        with pytest.raises(ClientError, match="InternalError"):
            aws.fleet()
    assert aws.fleet()["Instances"]
    assert aws.admin.health()["internal_errors"] == 0, "an injected error is no defect of the sandbox"


def test_an_error_after_the_effect_leaves_the_instance_and_the_token_finds_it(aws: Aws) -> None:
    aws.admin.fault("CreateFleet", "InternalError", status=500, after_effect=True)
    with pytest.raises(ClientError, match="DryRunOperation"):  # it has no effect that the error could follow
        aws.fleet(DryRun=True)
    with pytest.raises(ClientError, match="InternalError"):
        aws.fleet(ClientToken="one")
    instances = [instance["id"] for instance in aws.admin.instances()]
    assert len(instances) == 1
    assert aws.fleet(ClientToken="one")["Instances"][0]["InstanceIds"] == instances


def test_faults_of_one_action_leave_others_alone(aws: Aws) -> None:
    aws.admin.fault("TerminateInstances", "UnauthorizedOperation", status=403, count=None)
    launch = aws.launch()
    for _ in range(3):
        with pytest.raises(ClientError, match="UnauthorizedOperation"):
            aws.ec2.terminate_instances(InstanceIds=[launch])
    aws.admin.clear_faults("TerminateInstances")
    aws.ec2.terminate_instances(InstanceIds=[launch])


def test_a_fault_may_concern_only_calls_with_a_value(aws: Aws) -> None:
    launch, other = aws.launch(), aws.launch()
    aws.admin.fault("TerminateInstances", "UnauthorizedOperation", status=403, count=None, value=launch)
    aws.ec2.terminate_instances(InstanceIds=[other])
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        aws.ec2.terminate_instances(InstanceIds=[launch])


def test_errors_have_the_form_of_their_service(aws: Aws) -> None:
    aws.admin.fault("GetParameter", "InternalServerError", status=500)
    with pytest.raises(ClientError, match="InternalServerError"):
        aws.image()
    aws.admin.fault("GetInstanceProfile", "NoSuchEntity", status=404)
    with pytest.raises(ClientError, match="NoSuchEntity"):
        aws.client("iam").get_instance_profile(InstanceProfileName="KarpenterNodeRole-sandbox")
    aws.admin.fault("DescribeCluster", "ResourceNotFoundException", status=404)
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        aws.client("eks").describe_cluster(name="sandbox")


def test_a_limit_throttles_its_action_alone(aws: Aws) -> None:
    aws.admin.throttle("DescribeInstances", rate=0, burst=2)
    for _ in range(2):
        aws.ec2.describe_instances()
    with pytest.raises(ClientError, match="RequestLimitExceeded"):
        aws.ec2.describe_instances()
    aws.ec2.describe_subnets()
    aws.admin.clear_throttle()
    aws.ec2.describe_instances()


def test_tokens_come_back_with_time() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    throttle.limit("X", rate=2, burst=1)
    assert [throttle.allows("X"), throttle.allows("X")] == [True, False]
    clock.pass_(0.5)
    assert [throttle.allows("X"), throttle.allows("X")] == [True, False]


def test_calls_are_recorded_with_their_outcome(aws: Aws) -> None:
    aws.admin.clear_calls()
    with pytest.raises(ClientError):
        aws.ec2.terminate_instances(InstanceIds=["i-0123456789abcdef0"])
    call = aws.admin.calls("TerminateInstances")[0]
    assert (call["status"], call["error"]) == (400, "InvalidInstanceID.NotFound")
    assert call["parameters"]["InstanceId.1"] == "i-0123456789abcdef0"


def test_user_data_is_not_recorded() -> None:
    log = CallLog()
    log.add("ec2", "CreateLaunchTemplate", {"LaunchTemplateData.UserData": "aGVsbG8=", "X": "y"}, 200, "")
    assert log.listing()[0]["parameters"] == {"X": "y"}


def test_a_failure_of_the_mock_is_an_internal_error_and_counted(aws: Aws) -> None:
    with pytest.raises(ClientError, match="InternalError"):
        aws.ec2.get_capacity_reservation_usage(CapacityReservationId="cr-0123456789abcdef0")
    health = aws.admin.health()
    assert (health["internal_errors"], health["internal_error_calls"]) == (1, ["ec2.GetCapacityReservationUsage"])


def test_concurrent_launches_share_no_address(aws: Aws) -> None:
    subnet = aws.subnets["us-west-2a"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: aws.fleet({"InstanceType": "m7g.large", "SubnetId": subnet}), range(24)))
    assert all(len(answer["Instances"]) == 1 for answer in answers)
    assert len({instance["private_dns_name"] for instance in aws.admin.instances()}) == 24
    assert aws.admin.health()["internal_errors"] == 0


def test_an_invalid_fault_is_explained(aws: Aws) -> None:
    with pytest.raises(ValueError, match="status 99 is not an HTTP status"):
        aws.admin.fault("X", "Y", status=99)
    url = aws.server.endpoint + "/sandbox/faults"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(url, b'{"acton": "CreateFleet"}', method="POST"))
    assert refused.value.code == 400


def test_answers_are_http_1_1_on_loopback_and_a_fast_client_never_hangs(aws: Aws) -> None:
    address = urlsplit(aws.server.endpoint)
    assert address.hostname == "127.0.0.1"
    connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=20)
    for _ in range(3):
        connection.request("GET", "/sandbox/health")
        answer = connection.getresponse()
        assert (answer.status, answer.version) == (200, 11)
        answer.read()
    connection.close()


def test_reset_starts_afresh_with_the_same_network(aws: Aws) -> None:
    aws.launch()
    aws.admin.capacity(0)
    aws.admin.fault("CreateFleet", "X")
    aws.admin.reset()
    assert aws.admin.instances() == []
    assert sorted(aws.subnets) == [f"us-west-2{letter}" for letter in "abcd"]
    aws.template()
    assert aws.fleet()["Instances"]
