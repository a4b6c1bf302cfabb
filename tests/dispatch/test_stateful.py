"""The protocol of sending, driven at random on the real database; see `promises.py`."""

from collections.abc import Sequence
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, Phase
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import func, update

from dashboard.dispatch import claims
from dashboard.dispatch.claims import Claim
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt
from dashboard.dispatch.states import State
from dashboard.providers.base import Event
from dashboard.settings import Settings
from tests.dispatch.promises import Fate, Violation
from tests.dispatch.protocol import (
    LONGER_THAN_GONE,
    LONGER_THAN_STALL,
    Behaviour,
    Named,
    World,
)

PICKS = st.integers(0, 5)
WORKERS = st.integers(0, 1)
BEHAVIOURS = st.sampled_from([*[Behaviour.ACCEPTS] * 4, *Behaviour])
OFTEN = st.sampled_from([True, True, False])
AWAKE = st.sampled_from([(), (0,), (1,), (0, 1)])
REPORTED = st.sampled_from(
    [Event.IN_FLIGHT, Event.DEFERRED, *[Event.DELIVERED] * 2, *[Event.FAILED] * 2, Event.OPENED]
)
POLICIES = st.sampled_from(["resend", "hold"])


class Protocol(RuleBasedStateMachine):
    """Single steps and true reports, in any order."""

    app: Flask
    product: Settings

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.app, self.product)

    def teardown(self) -> None:
        self.world.settle_down()

    @invariant()
    def promises(self) -> None:
        self.world.examine()

    @initialize(
        policy=POLICIES,
        tries=st.sampled_from([0, 0, 10]),
        losses=st.sampled_from([0, 0, 2]),
        claimed=st.booleans(),
    )
    def first_request(self, policy: str, tries: int, losses: int, claimed: bool) -> None:
        self.world.request(policy, tries=tries, losses=losses)
        if claimed:
            self.world.claim(self.world.workers[0], self.world.jobs.pop())

    # The application and its jobs

    @precondition(lambda self: len(self.world.states()) < 3)
    @rule(
        policy=POLICIES,
        due_in=st.sampled_from([0, 0, 60]),
        valid_for=st.sampled_from([None, None, 300]),
        redis_answers=st.booleans(),
    )
    def request(self, policy: str, due_in: int, valid_for: int | None, redis_answers: bool) -> None:
        self.world.request(policy, due_in=due_in, valid_for=valid_for, redis_answers=redis_answers)

    @precondition(lambda self: self.world.jobs)
    @rule(pick=PICKS)
    def lose_a_job(self, pick: int) -> None:
        self.world.jobs.pop(pick % len(self.world.jobs))

    @precondition(lambda self: self.world.jobs and len(self.world.jobs) < 4)
    @rule(pick=PICKS)
    def double_a_job(self, pick: int) -> None:
        self.world.jobs.append(self.world.jobs[pick % len(self.world.jobs)])

    # The four steps of a worker

    @precondition(lambda self: self.world.jobs)
    @rule(worker=WORKERS, pick=PICKS, siblings=st.booleans())
    def claim(self, worker: int, pick: int, siblings: bool) -> None:
        job = self.world.jobs.pop(pick % len(self.world.jobs))
        self.world.claim(self.world.workers[worker], job, siblings=siblings)

    @precondition(lambda self: self._flights(marked=False, called=False))
    @rule(pick=PICKS)
    def mark(self, pick: int) -> None:
        self.world.mark(*self._pick(pick, marked=False, called=False))

    @precondition(lambda self: self._flights(marked=True, called=False))
    @rule(pick=PICKS, behaviour=BEHAVIOURS, asleep=st.booleans())
    def call(self, pick: int, behaviour: Behaviour, asleep: bool) -> None:
        worker, flight = self._pick(pick, marked=True, called=False)
        self.world.call(worker, flight, behaviour, asleep=asleep)

    @precondition(lambda self: self._flights(marked=True, called=True))
    @rule(pick=PICKS)
    def record(self, pick: int) -> None:
        self.world.record(*self._pick(pick, marked=True, called=True))

    def _flights(self, *, marked: bool, called: bool) -> list[tuple[Any, Any]]:
        return [
            (worker, flight)
            for worker in self.world.workers
            for flight in worker.at(marked=marked, called=called)
        ]

    def _pick(self, pick: int, *, marked: bool, called: bool) -> tuple[Any, Any]:
        flights = self._flights(marked=marked, called=called)
        return flights[pick % len(flights)]

    @rule(worker=WORKERS)
    def kill(self, worker: int) -> None:
        self.world.kill(worker)

    # Time and upkeep

    @rule(
        seconds=st.sampled_from([6, LONGER_THAN_GONE, LONGER_THAN_STALL, LONGER_THAN_STALL]),
        awake=AWAKE,
    )
    def time_passes(self, seconds: int, awake: Sequence[int]) -> None:
        self.world.pass_time(seconds, awake)

    @rule(redis_answers=st.booleans())
    def reconcile(self, redis_answers: bool) -> None:
        self.world.reconcile(redis_answers=redis_answers)

    @rule(redis_answers=st.booleans())
    def release(self, redis_answers: bool) -> None:
        self.world.release(redis_answers=redis_answers)

    @precondition(lambda self: self.world.route_is_paused())
    @rule()
    def resume_the_route(self) -> None:
        self.world.resume_route()

    @precondition(lambda self: any(worker.flights for worker in self.world.workers))
    @rule(behaviour=BEHAVIOURS, records=OFTEN, goes_on=OFTEN)
    def another_takes_over(self, behaviour: Behaviour, records: bool, goes_on: bool) -> None:
        """Pause the worker that holds something until the other one has taken it over."""
        world = self.world
        paused = next(index for index, one in enumerate(world.workers) if one.flights)
        other = world.workers[1 - paused]
        world.pass_time(LONGER_THAN_GONE, [1 - paused])
        world.reconcile()
        world.pass_time(LONGER_THAN_STALL, [1 - paused])
        world.release()
        jobs, world.jobs = world.jobs, []
        for job in jobs:
            world.claim(other, job)
        for flight in other.at(marked=False, called=False):
            if world.mark(other, flight):
                world.call(other, flight, behaviour)
        for flight in other.at(marked=True, called=True) if records else ():
            world.record(other, flight)
        if goes_on:
            world.examine()
            world.finish(world.workers[paused])

    # Reports

    @precondition(lambda self: self.world.truth.accepted)
    @rule(
        pick=PICKS,
        what=REPORTED,
        named=st.sampled_from(Named),
        fate=st.sampled_from(Fate),
        times=st.sampled_from([1, 1, 2]),
    )
    def report(self, pick: int, what: Event, named: Named, fate: Fate, times: int) -> None:
        messages = self.world.truth.messages()
        for _ in range(times):
            self.world.report(messages[pick % len(messages)], what, named, fate)

    @precondition(lambda self: self.world.truth.accepted)
    @rule()
    def match(self) -> None:
        self.world.match()

    # Presses

    @rule(pick=PICKS)
    def press_retry(self, pick: int) -> None:
        ids = list(self.world.states())
        self.world.press_retry(ids[pick % len(ids)])

    @rule(pick=PICKS)
    def press_cancel(self, pick: int) -> None:
        ids = list(self.world.states())
        self.world.press_cancel(ids[pick % len(ids)])

    @precondition(lambda self: len(self.world.states()) < 4)
    @rule(pick=PICKS)
    def press_resend(self, pick: int) -> None:
        ids = list(self.world.states())
        self.world.press_resend(ids[pick % len(ids)])


def machine(app: Flask, product: Settings) -> type[Protocol]:
    return type("ProtocolHere", (Protocol,), {"app": app, "product": product})


def test_no_order_of_steps_breaks_a_promise(app: Flask, settings: Settings) -> None:
    run_state_machine_as_test(machine(app, settings), settings=effort())


def effort(*, share: float = 0.25, **values: Any) -> profile:
    """Settings of the machine: a share of the profile's examples, each of which is a long story."""
    return profile(
        max_examples=int(profile.default.max_examples * share),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **values,
    )


def mark_without_a_fence(session: Any, wanted: Sequence[Claim]) -> set[Any]:
    """Mark hand-overs and check nothing: what the fence is there to prevent."""
    marked = (
        update(Attempt)
        .where(Attempt.id.in_([one.attempt_id for one in wanted]))
        .values(
            handed_over_at=func.clock_timestamp(),
            evidence=func.greatest(Attempt.evidence, int(Evidence.HANDED_OVER)),
        )
        .returning(Attempt.id)
        .execution_options(synchronize_session=False)
    )
    return set(session.execute(marked).scalars())


def a_paused_worker_is_taken_over(world: World) -> None:
    """Claim, pause, let another one send it, and go on where the pause began."""
    world.request("hold")
    paused, other = world.workers
    world.claim(paused, world.jobs.pop())
    world.pass_time(LONGER_THAN_GONE, [1])
    world.reconcile()
    world.release()
    world.claim(other, world.jobs.pop())
    world.finish(other)
    world.examine()
    world.finish(paused)
    world.examine()


def test_a_worker_that_was_paused_after_its_claim_sends_nothing(
    app: Flask, settings: Settings
) -> None:
    world = World(app, settings)
    a_paused_worker_is_taken_over(world)
    assert list(world.truth.accepted.values()) == [[2]]
    assert list(world.states().values()) == [State.AWAITING]


def test_without_the_fence_the_paused_worker_sends_a_second_copy(
    app: Flask, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "mark", mark_without_a_fence)
    with pytest.raises(Violation, match="no hand-over once acceptance is recorded"):
        a_paused_worker_is_taken_over(World(app, settings))


def test_the_machine_finds_that_the_fence_is_missing(
    app: Flask, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "mark", mark_without_a_fence)
    with pytest.raises(Violation):
        run_state_machine_as_test(
            machine(app, settings),
            settings=effort(
                share=0.5,
                stateful_step_count=20,
                phases=[Phase.generate],
                derandomize=True,
                database=None,
                report_multiple_bugs=False,
            ),
        )
