"""Which token the next launch of a NodeClaim has: attempts outlive a workflow, and a known token holds nothing up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node.launch_breakers import LaunchBreakers
from activities.node.launch_preparation import RESUMED_AFTER
from activities.node.launching import Launching
from tenon.apis import labels
from tenon.messages.launch import (
    Instance,
    LaunchInput,
    LaunchRequest,
    LaunchResult,
    LaunchWait,
    PrepareLaunchInput,
)
from tenon.node import machine
from tenon.node.launch_retry import ANSWER_GRACE
from tenon.node.state import NodeState, Stage
from tenon.node.steps import DeadlinePassed, Run, Wait
from tests.activities.node.fake_kube import stamp
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import REF, World, claim

REFUSED = LaunchResult(
    reason="Unauthorized",
    message="you may not",
    waits=LaunchWait(reason="Unauthorized", message="you may not", unsettled=True),
)
NOT_SHOWN = LaunchResult(
    reason="IdempotentParameterMismatch",
    message="EC2 knows the token",
    waits=LaunchWait(
        reason="IdempotentParameterMismatch",
        message="EC2 knows the token",
        has_answer=False,
        unsettled=True,
        accepted=True,
    ),
)
NO_INSTANCE = LaunchResult(
    reason="IdempotentParameterMismatch",
    message="EC2 knows the token",
    waits=LaunchWait(reason="IdempotentParameterMismatch", message="EC2 knows the token", new_token=True),
)
TEMPLATE_GONE = LaunchResult(
    reason="LaunchTemplateNotFound",
    message="InvalidLaunchTemplateName.NotFoundException: it does not exist",
    waits=LaunchWait(reason="LaunchTemplateNotFound", message="it does not exist"),
)


class Tokens(Seller):
    """Its requests have the attempt as token. It gives the answers of ``answers`` by token, and sells for others."""

    def __init__(self, **answers: LaunchResult) -> None:
        super().__init__()
        self.answers = answers
        self.sent_tokens: list[str] = []
        self.searched = 0

    def prepare_launch(self, *value: Any) -> LaunchRequest:
        return LaunchRequest(client_token=f"t{value[2]}", capacity_type="on-demand", templates=[], tags={})

    def launch(self, request: LaunchRequest) -> LaunchResult:
        self.sent_tokens.append(request.client_token)
        return self.answers.get(request.client_token) or super().launch(request)

    def find_instance(self, claim_name: str) -> Instance | None:
        self.searched += 1
        return None


class Life:
    """The launch of one NodeClaim by its workflow, which may be terminated and start again."""

    def __init__(self, ec2: Tokens) -> None:
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        self.world, raw = World(), claim(nodeClassRef=reference)
        raw["status"] = {}
        raw["metadata"] |= {"creationTimestamp": stamp(self.world.clock())}
        self.world.kube.add(NODECLAIMS, raw)
        self.world.kube.add(EC2NODECLASSES, node_class())
        self.breakers = LaunchBreakers(self.world.clock, wait_seconds=0.0)
        self.launching = Launching(
            self.world.kube,
            self.world.recorder,
            cast("Any", ec2),
            self.world.clock,
            breakers=self.breakers,
            tries=lambda: 1,
        )
        self.restart()

    def restart(self) -> None:
        """The workflow begins again and knows only the claim."""
        self.state = NodeState(claim=REF, pool="web", began_at=self.world.clock())

    async def step(self) -> None:
        """Do the next thing that the workflow does; a wait passes at once."""
        step = machine.next_step(self.state, self.world.clock())
        result: Any
        if isinstance(step, Wait):
            assert step.until is not None
            self.world.clock.instant = max(step.until, self.world.clock())
            result = DeadlinePassed()
        elif isinstance(step, Run) and isinstance(step.input, PrepareLaunchInput):
            result = await self.launching.prepare(step.input)
        else:
            assert isinstance(step, Run)
            assert isinstance(step.input, LaunchInput)
            result = await self.launching.launch(step.input)
        self.state = machine.apply(self.state, result, self.world.clock())

    async def to_registering(self) -> timedelta:
        """How long it takes until the claim has its instance."""
        began = self.world.clock()
        for _ in range(100):
            if self.state.stage is Stage.REGISTERING:
                return self.world.clock() - began
            await self.step()
        raise AssertionError(f"still {self.state.stage.value} in attempt {self.state.attempt}: {self.state.blocked}")

    @property
    def attempt(self) -> str:
        return str(self.world.claim["metadata"]["annotations"].get(labels.LAUNCH_ATTEMPT, ""))

    @property
    def held(self) -> list[str]:
        return [breaker.reason for breaker in self.breakers.report().breakers]


async def test_a_first_launch_records_no_attempt() -> None:
    life = Life(Tokens())
    await life.to_registering()
    assert life.attempt == ""
    assert life.state.attempt == 1


async def test_a_workflow_that_starts_again_after_a_refusal_does_not_repeat_the_token() -> None:
    """EC2 knows it with other parameters by then."""
    ec2 = Tokens(t1=REFUSED)
    life = Life(ec2)
    await life.step()
    await life.step()
    assert (ec2.sent_tokens, life.attempt) == (["t1"], "2")
    life.restart()
    life.world.clock.instant += RESUMED_AFTER / 2
    await life.to_registering()
    assert ec2.sent_tokens == ["t1", "t2"]
    assert life.state.attempt == 2
    assert ec2.searched, "an earlier attempt may have bought an instance"


async def test_an_attempt_is_recorded_before_it_is_sent() -> None:
    """Also one that follows a launch that was held back."""
    ec2 = Tokens()
    life = Life(ec2)
    life.breakers.refused("web", "Unauthorized", "you may not")
    await life.step()
    assert life.state.attempt == 2
    while not ec2.sent_tokens:
        before = life.attempt
        await life.step()
    assert (before, ec2.sent_tokens) == ("2", ["t2"])


async def test_a_refusal_records_no_new_attempt_while_an_instance_may_appear() -> None:
    """A new token could buy a second instance."""
    ec2 = Tokens(t1=REFUSED)
    life = Life(ec2)
    await life.step()
    for unsettled in (True, False):
        assert life.state.request is not None
        launch_input = LaunchInput(claim=REF, request=life.state.request, attempt=1, unsettled=unsettled)
        life.breakers.launched("web")
        await life.launching.launch(launch_input)
        assert life.attempt == ("" if unsettled else "2")


async def test_a_sending_in_doubt_says_so_to_the_next_one() -> None:
    life = Life(Tokens(t1=NOT_SHOWN))
    for _ in range(3):
        await life.step()
    step = machine.next_step(life.state, life.world.clock())
    assert isinstance(step, Run)
    assert isinstance(step.input, LaunchInput)
    assert (step.input.attempt, step.input.unsettled) == (1, True)
    assert life.attempt == "", "a new token could buy a second instance"


async def test_a_known_token_whose_instance_does_not_appear_gives_way_to_another_in_time() -> None:
    """The two minutes count from the first answer, and EC2 is not away: nothing else of the NodePool is held back."""
    ec2 = Tokens(t1=NOT_SHOWN)
    life = Life(ec2)
    took = await life.to_registering()
    assert ANSWER_GRACE <= took < ANSWER_GRACE + timedelta(minutes=1)
    assert ec2.sent_tokens[-1] == "t2"
    assert set(ec2.sent_tokens[:-1]) == {"t1"}
    assert life.held == []


async def test_each_known_token_is_waited_for_on_its_own() -> None:
    took = await Life(Tokens(t1=NOT_SHOWN, t2=NOT_SHOWN)).to_registering()
    assert 2 * ANSWER_GRACE <= took < 2 * ANSWER_GRACE + timedelta(minutes=1)


async def test_a_member_of_an_incomplete_group_records_that_it_launches_alone() -> None:
    """Another process may see the group complete later, and must not buy for this claim too."""
    ec2 = Tokens()
    life = Life(ec2)
    metadata = life.world.claim["metadata"]
    metadata["labels"][labels.BATCH] = "7"
    metadata["annotations"][labels.LAUNCH_GROUP] = "7-0/0/2"
    life.world.clock.instant += timedelta(seconds=11)
    life.restart()
    await life.step()
    assert (life.attempt, ec2.sent_tokens) == ("1", [])
    assert life.state.request is not None
    assert life.state.request.group is None


async def test_a_launch_without_an_answer_is_repeated_for_two_minutes_after_each_sending() -> None:
    """Each of them may be the one that EC2 received."""
    life = Life(Tokens())
    await life.step()
    for _ in range(3):
        life.world.clock.instant += ANSWER_GRACE - timedelta(seconds=1)
        lost = LaunchResult(waits=LaunchWait(reason="X", message="no answer", has_answer=False, unsettled=True))
        life.state = machine.apply(life.state, lost, life.world.clock())
        assert life.state.stage is Stage.LAUNCHING
    assert life.state.launch_unsettled_until == life.world.clock() + ANSWER_GRACE


async def test_a_known_token_without_an_instance_gives_way_to_another_at_once() -> None:
    ec2 = Tokens(t1=NO_INSTANCE)
    life = Life(ec2)
    assert await life.to_registering() == timedelta()
    assert ec2.sent_tokens == ["t1", "t2"]
    assert life.held == []


async def test_a_token_in_doubt_gives_way_when_ec2_shows_that_nothing_is_left_of_it() -> None:
    ec2 = Tokens(t1=NOT_SHOWN)
    life = Life(ec2)
    for _ in range(3):
        await life.step()
    ec2.answers["t1"] = NO_INSTANCE
    assert await life.to_registering() == timedelta()


async def test_a_launch_whose_template_is_gone_is_prepared_again_at_once() -> None:
    """The preparation creates the template. EC2 refused nothing, so neither the claim nor its NodePool says so."""
    ec2 = Tokens(t1=TEMPLATE_GONE)
    life = Life(ec2)
    assert await life.to_registering() == timedelta()
    assert ec2.sent_tokens == ["t1", "t2"]
    assert life.held == []
    assert life.world.recorder.events == []


async def test_a_claim_whose_template_is_gone_in_each_attempt_says_so_and_is_given_up() -> None:
    """LIF-05: somebody deletes the templates, or EC2 does not show them."""
    ec2 = Tokens(**{f"t{number}": TEMPLATE_GONE for number in range(1, 200)})
    life = Life(ec2)
    began = life.world.clock()
    while not life.world.claim["metadata"].get("deletionTimestamp"):
        assert life.world.clock() - began < timedelta(minutes=7)
        await life.step()
    assert life.world.clock() - began > timedelta(minutes=5)
    assert {event[3] for event in life.world.recorder.events if event[2] == "LaunchFailed"} == {
        "LaunchTemplateNotFound: it does not exist"
    }


async def test_an_ec2_that_knows_every_token_is_not_asked_in_a_tight_loop() -> None:
    life = Life(Tokens(**{f"t{number}": NO_INSTANCE for number in range(1, 9)}))
    assert await life.to_registering() > timedelta(minutes=1)


@pytest.mark.parametrize("text", ["", "-1", "two"])
async def test_an_unreadable_attempt_counts_as_the_first(text: str) -> None:
    ec2 = Tokens()
    life = Life(ec2)
    life.world.claim["metadata"]["annotations"][labels.LAUNCH_ATTEMPT] = text
    await life.to_registering()
    assert ec2.sent_tokens == ["t1"]
