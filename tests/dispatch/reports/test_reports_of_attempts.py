"""Reports about several attempts of one dispatch, in every order, on the real database."""

import uuid
from itertools import permutations

import pytest
from flask import Flask

from dashboard.dispatch.states import State
from dashboard.providers.base import Event
from dashboard.settings import Settings
from tests.dispatch.promises import Fate
from tests.dispatch.protocol import LONGER_THAN_STALL, Behaviour, Flight, Named, Worker, World

Told = tuple[int, Event, Fate]


def second_attempt(world: World, first: Behaviour) -> tuple[uuid.UUID, Worker, Flight]:
    """Bring a dispatch to its second attempt, after a first one whose outcome is unknown."""
    dispatch_id = world.request("resend")
    worker = world.workers[0]
    world.claim(worker, world.jobs.pop())
    world.finish(worker, first)
    world.pass_time(LONGER_THAN_STALL)
    world.release()
    world.claim(worker, world.jobs.pop())
    [flight] = worker.flights
    assert flight.claim.number == 2
    return dispatch_id, worker, flight


def end_of(world: World, told: tuple[Told, ...], named: Named) -> State:
    """Tell reports about two attempts, both accepted, in an order; return where it ends."""
    dispatch_id, worker, _ = second_attempt(world, Behaviour.ACCEPTS_AND_BREAKS)
    world.finish(worker)
    for number, what, fate in told:
        world.report((dispatch_id, number), what, named, fate)
        world.examine()
    return world.states()[dispatch_id]


SETS: list[tuple[tuple[Told, ...], State]] = [
    (
        (
            (1, Event.IN_FLIGHT, Fate.DELIVERED),
            (1, Event.DELIVERED, Fate.DELIVERED),
            (2, Event.FAILED, Fate.BOUNCED),
        ),
        State.SUCCEEDED,
    ),
    (
        (
            (2, Event.DELIVERED, Fate.DELIVERED_THEN_BOUNCED),
            (2, Event.FAILED, Fate.DELIVERED_THEN_BOUNCED),
            (2, Event.DEFERRED, Fate.DELIVERED_THEN_BOUNCED),
        ),
        State.UNCONFIRMED,
    ),
    (
        (
            (1, Event.FAILED, Fate.FAILED),
            (2, Event.FAILED, Fate.BOUNCED),
            (2, Event.IN_FLIGHT, Fate.BOUNCED),
        ),
        State.ERRORED,
    ),
    (
        (
            (1, Event.IN_FLIGHT, Fate.DELIVERED),
            (2, Event.FAILED, Fate.FAILED),
            (2, Event.IN_FLIGHT, Fate.FAILED),
        ),
        State.AWAITING,
    ),
]


@pytest.mark.parametrize(("told", "wanted"), SETS)
@pytest.mark.parametrize("named", [Named.BY_KEY, Named.BY_BOTH])
def test_each_order_of_reports_about_two_attempts_ends_the_same(
    app: Flask, settings: Settings, told: tuple[Told, ...], wanted: State, named: Named
) -> None:
    ends = {order: end_of(World(app, settings), order, named) for order in permutations(told)}
    assert set(ends.values()) == {wanted}, ends


@pytest.mark.parametrize("behaviour", [Behaviour.REFUSES_FOR_GOOD, Behaviour.REFUSES_FOR_NOW])
def test_a_delivery_of_attempt_1_while_attempt_2_is_sending_wins_over_its_failure(
    app: Flask, settings: Settings, behaviour: Behaviour
) -> None:
    world = World(app, settings)
    dispatch_id, worker, flight = second_attempt(world, Behaviour.ACCEPTS_AND_BREAKS)
    assert world.mark(worker, flight)
    world.call(worker, flight, behaviour)
    world.report((dispatch_id, 1), Event.DELIVERED, Named.BY_KEY)
    world.record(worker, flight)
    world.examine()
    row = world.row(dispatch_id)
    assert (row.state, row.delivered_attempt) == (State.SUCCEEDED, 1)


def test_a_late_failure_of_attempt_1_does_not_touch_attempt_2(
    app: Flask, settings: Settings
) -> None:
    world = World(app, settings)
    dispatch_id, worker, flight = second_attempt(world, Behaviour.ACCEPTS_AND_BREAKS)
    assert world.mark(worker, flight)
    world.call(worker, flight, Behaviour.ACCEPTS)
    world.report((dispatch_id, 1), Event.FAILED, Named.BY_KEY, Fate.BOUNCED)
    assert world.states()[dispatch_id] is State.SENDING
    world.record(worker, flight)
    assert world.states()[dispatch_id] is State.AWAITING


def test_a_retry_clears_the_way_for_the_new_attempts_early_report(
    app: Flask, settings: Settings
) -> None:
    """Attempt 1 stored no id: only the number in the key says which of the two it is."""
    world = World(app, settings)
    dispatch_id = world.request("resend")
    worker = world.workers[0]
    world.claim(worker, world.jobs.pop())
    world.finish(worker, Behaviour.REFUSES_FOR_GOOD)
    assert world.press_retry(dispatch_id)
    world.claim(worker, world.jobs.pop())
    [flight] = worker.flights
    assert world.mark(worker, flight)
    world.call(worker, flight, Behaviour.ACCEPTS)
    world.report((dispatch_id, 2), Event.DELIVERED, Named.BY_BOTH)
    assert world.states()[dispatch_id] is State.SUCCEEDED
    world.record(worker, flight)
    world.examine()
    row = world.row(dispatch_id)
    assert (row.state, row.delivered_attempt) == (State.SUCCEEDED, 2)
