"""The protocol of sending as single steps on the real database: claim, mark, call, record.

The database, Redis, claims, recorder, reconciler and presses are the real ones. Only the provider
is ours, which remembers the truth and reports it, and time: it passes by making every row older.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum

from flask import Flask
from rq.job import Job
from sqlalchemy import DateTime, select, text

from dashboard.access.models import Source
from dashboard.access.permissions import Permission
from dashboard.access.scope import Access
from dashboard.database import Base, database_now, db
from dashboard.dispatch import claims, publishing, routes
from dashboard.dispatch.actions.cancel import cancel
from dashboard.dispatch.actions.press import ActionRefused
from dashboard.dispatch.actions.resend import resend
from dashboard.dispatch.actions.retry import retry
from dashboard.dispatch.claims import Claim, Taker
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch, RoutePause
from dashboard.dispatch.outcomes import Result
from dashboard.dispatch.repair.passes import reconcile
from dashboard.dispatch.repair.round import Round
from dashboard.dispatch.reports.applying import match_waiting, receive
from dashboard.dispatch.states import Channel, State
from dashboard.providers.base import Capabilities, Event, Outcome, OutcomeKind, Report
from dashboard.queueing.connection import redis_connection
from dashboard.settings import Settings
from dashboard.workers import liveness
from dashboard.workers.liveness import Introduction
from jobs.recorder import Recorder
from jobs.sender import MARK_VALID_SECONDS
from jobs.unclaimed import look_into
from tests.dispatch.promises import Fate, Promises, require, require_fenced
from tests.factories import make_dispatch, make_source

ROUTE = "truth"
QUEUE = "default"
OPERATOR = Access("user:operator@example.com", everywhere=frozenset(Permission))
LONGER_THAN_GONE = 40
LONGER_THAN_STALL = 11 * 60
LONGER_THAN_ANY_WINDOW = 73 * 3600
AGED = ("dispatch", "attempt", "worker", "route_pause", "transition", "report")
NOT_AGED = ("source", "activity", "replacement", "report_key", "suppression")


class Named(StrEnum):
    """How a report says which attempt it is about."""

    BY_ID = "by the provider's id"
    BY_KEY = "by our key"
    BY_BOTH = "by both"


class Behaviour(StrEnum):
    """What the provider does with one call, and what its caller sees of it."""

    ACCEPTS = "accepts"
    ACCEPTS_WITHOUT_REPORTS = "accepts, will not report"
    REFUSES_FOR_NOW = "refuses for now"
    REFUSES_FOR_GOOD = "refuses for good"
    REFUSES_US = "refuses our password"
    ACCEPTS_AND_BREAKS = "accepts, but its answer is lost"
    BREAKS = "breaks before it accepts"


ACCEPTING = (Behaviour.ACCEPTS, Behaviour.ACCEPTS_WITHOUT_REPORTS, Behaviour.ACCEPTS_AND_BREAKS)
SEEN = {
    Behaviour.ACCEPTS: Outcome(OutcomeKind.ACCEPTED, report_expected=True),
    Behaviour.ACCEPTS_WITHOUT_REPORTS: Outcome(OutcomeKind.ACCEPTED),
    Behaviour.REFUSES_FOR_NOW: Outcome(
        OutcomeKind.TRANSIENT, detail="451 later", about_recipient=True
    ),
    Behaviour.REFUSES_FOR_GOOD: Outcome(
        OutcomeKind.PERMANENT, detail="550 no such user", about_recipient=True
    ),
    Behaviour.REFUSES_US: Outcome(OutcomeKind.CONFIG, detail="535 wrong password"),
    Behaviour.ACCEPTS_AND_BREAKS: Outcome(OutcomeKind.UNKNOWN, detail="read timed out"),
    Behaviour.BREAKS: Outcome(OutcomeKind.UNKNOWN, detail="read timed out"),
}


@dataclass
class Truth:
    """What the provider really did.

    Attributes:
        accepted: the attempts whose message it accepted, per dispatch.
        fates: what became of those that a final report was asked for.
    """

    accepted: dict[uuid.UUID, list[int]] = field(default_factory=dict)
    fates: dict[tuple[uuid.UUID, int], Fate] = field(default_factory=dict)

    def call(self, claim: Claim, behaviour: Behaviour) -> Outcome:
        """Take one message, or not, and say what the caller sees."""
        if behaviour in ACCEPTING:
            self.accepted.setdefault(claim.dispatch.id, []).append(claim.number)
        seen = SEEN[behaviour]
        named = seen.kind is OutcomeKind.ACCEPTED
        return replace(seen, provider_message_id=message_id(claim)) if named else seen

    def messages(self) -> list[tuple[uuid.UUID, int]]:
        """Return every message that was accepted: its dispatch and attempt."""
        return [(row, number) for row, numbers in self.accepted.items() for number in numbers]


def message_id(claim: Claim) -> str:
    """Return the provider's id of an attempt's message."""
    return f"message-{claim.dispatch.id}-{claim.number}"


@dataclass
class Flight:
    """One claim in the hands of a worker, with how far it came."""

    claim: Claim
    marked_at: float | None = None
    outcome: Outcome | None = None


@dataclass
class Worker:
    """One worker process; a paused one keeps its flights and goes on with them later."""

    name: str
    recorder: Recorder
    flights: list[Flight] = field(default_factory=list)

    def at(self, *, marked: bool, called: bool) -> list[Flight]:
        """Return the flights that are at one stage."""
        return [
            one
            for one in self.flights
            if (one.marked_at is not None) is marked and (one.outcome is not None) is called
        ]


class World:
    """Two workers, a lossy job list, a provider that keeps the truth, and the real rest."""

    def __init__(self, app: Flask, settings: Settings) -> None:
        given = {"email_provider": ROUTE, "sms_provider": ROUTE}
        self.app = app
        self.settings = settings.model_copy(update=given)
        self.without_redis = self.settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
        self.truth = Truth()
        self.jobs: list[list[uuid.UUID]] = []
        self.time = 0.0
        self._promises = Promises(self.truth.accepted, self.truth.fates)
        self._names = iter(range(1, 1_000_000))
        self._empty()
        self.workers = [self._start_worker(), self._start_worker()]

    def _empty(self) -> None:
        with self.app.app_context():
            tables = ", ".join(f'"{name}"' for name in (*AGED, *NOT_AGED))
            db.session.execute(text(f"TRUNCATE {tables} CASCADE"))
            db.session.commit()
            for policy in ("resend", "hold"):
                make_source(db.session, policy, unknown_outcome_email=policy)
            db.session.commit()
        redis_connection(self.settings).flushall()

    def _start_worker(self) -> Worker:
        name = f"w-{next(self._names)}"
        with self.app.app_context():
            liveness.register(db.session, Introduction(name, [QUEUE]))
            db.session.commit()
        return Worker(name, Recorder(self.settings, name, {(Channel.EMAIL, ROUTE): Capabilities()}))

    # Time

    def pass_time(self, seconds: int, awake: Sequence[int] = (0, 1)) -> None:
        """Make every row older; workers that are awake stamp themselves afterwards."""
        shift = f"interval '{seconds} seconds'"
        statements = []
        for name in AGED:
            columns = [
                column.name
                for column in Base.metadata.tables[name].columns
                if isinstance(column.type, DateTime)
            ]
            pairs = ", ".join(f'"{column}" = "{column}" - {shift}' for column in columns)
            statements.append(f'UPDATE "{name}" SET {pairs}')  # noqa: S608  our own names
        with self.app.app_context():
            db.session.execute(text("; ".join(statements)))
            for index in awake:
                liveness.stamp(db.session, self.workers[index].name)
            db.session.commit()
        self.time += seconds

    # Requests and jobs

    def request(
        self,
        policy: str,
        *,
        due_in: int = 0,
        valid_for: int | None = None,
        tries: int = 0,
        losses: int = 0,
        redis_answers: bool = True,
    ) -> uuid.UUID:
        """Ask for one message: the row first, committed, then its job."""
        settings = self.settings if redis_answers else self.without_redis
        with self.app.app_context():
            session = db.session
            now = database_now(session)
            source = session.scalars(select(Source).where(Source.name == policy)).one()
            row = make_dispatch(
                session,
                source=source,
                due_at=now + timedelta(seconds=due_in),
                expires_at=now + timedelta(seconds=valid_for) if valid_for else None,
                published_at=None if due_in else now,
                tries=tries,
                losses=losses,
            )
            session.commit()
            if not due_in:
                publishing.publish_or_note(session, [(QUEUE, [row.id])], settings)
        self._drain()
        return row.id

    def release(self, *, redis_answers: bool = True) -> None:
        """Run the periodic task that publishes what may be claimed."""
        settings = self.settings if redis_answers else self.without_redis
        with self.app.app_context():
            publishing.release(db.session, settings)
        self._drain()

    def _drain(self) -> None:
        """Move the jobs from Redis to the list, where they get lost, doubled and reordered."""
        redis = redis_connection(self.settings)
        while (job_id := redis.lpop(f"rq:queue:{QUEUE}")) is not None:
            job = Job.fetch(job_id.decode(), connection=redis)
            self.jobs.append([uuid.UUID(one) for one in job.args[0]])
            job.delete()

    def reconcile(self, *, redis_answers: bool = True) -> None:
        """Run one round of the reconciler."""

        def queue_jobs(queue: str) -> int | None:
            if not redis_answers:
                return None
            return len(self.jobs) if queue == QUEUE else 0

        with self.app.app_context():
            this = Round(self.settings, queue_jobs, lambda _channel, _route: Capabilities())
            reconcile(db.session, this)

    def route_is_paused(self) -> bool:
        """Return whether the route is paused, or resumed and not tried yet."""
        with self.app.app_context():
            return db.session.get(RoutePause, ROUTE) is not None

    def resume_route(self) -> None:
        """Say that the route works again, as its probe or a person does."""
        with self.app.app_context():
            routes.resume(db.session, ROUTE)
            db.session.commit()

    # The four steps of a worker

    def claim(self, worker: Worker, job: Sequence[uuid.UUID], *, siblings: bool = False) -> None:
        """Claim what a job names, as the sender does."""
        taker = Taker(worker.name, QUEUE, {Channel.EMAIL: ROUTE}, tuple(job), siblings=siblings)
        with self.app.app_context():
            taken = claims.claim(db.session, taker, 4)
            db.session.commit()
            missing = set(job) - {one.dispatch.id for one in taken}
            rows = db.session.scalars(select(Dispatch).where(Dispatch.id.in_(missing))).all()
            db.session.commit()
            # Rows of a route that is paused are put back in ten seconds; here at once.
            paused = [row.id for row in rows if row.state.is_waiting and not row.hold]
            self.jobs += [[one] for one in paused]
            look_into(missing - set(paused), QUEUE)
        worker.flights += [Flight(one) for one in taken]

    def mark(self, worker: Worker, flight: Flight) -> bool:
        """Mark the hand-over, or step back where the fence refuses it."""
        claim = flight.claim
        with self.app.app_context():
            accepted = self._has_recorded_acceptance(claim.dispatch.id)
            marked = claims.mark(db.session, [claim])
            db.session.commit()
            if claim.attempt_id in marked:
                require(not accepted, "no hand-over once acceptance is recorded", claim.number)
                flight.marked_at = self.time
                return True
            worker.recorder.step_back([(claim.dispatch.id, claim.attempt_id)])
        worker.flights.remove(flight)
        return False

    def _has_recorded_acceptance(self, dispatch_id: uuid.UUID) -> bool:
        accepted = (Evidence.ACCEPTED, Evidence.IN_FLIGHT, Evidence.DELIVERED)
        query = select(Attempt.id).where(
            Attempt.dispatch_id == dispatch_id, Attempt.evidence.in_([int(one) for one in accepted])
        )
        return db.session.scalars(query).first() is not None

    def call(
        self, worker: Worker, flight: Flight, behaviour: Behaviour, *, asleep: bool = False
    ) -> None:
        """Call the provider; a mark that is too old is made again first.

        Args:
            asleep: the process was stopped between that check and the call, so it does not check.
        """
        if flight.marked_at is None:
            raise ValueError("a worker never calls before it marked")
        if self.time - flight.marked_at > MARK_VALID_SECONDS:
            if asleep:
                self._promises.late_calls[flight.claim.dispatch.id] += 1
            elif not self.mark(worker, flight):
                return
        flight.outcome = self.truth.call(flight.claim, behaviour)

    def record(self, worker: Worker, flight: Flight) -> None:
        """Record the outcome on its own attempt, and check that a late one changes nothing else."""
        claim = flight.claim
        if flight.outcome is None:
            raise ValueError("nothing came of it yet")
        before = self._columns(claim.dispatch.id)
        result = Result(
            claim.dispatch.id, claim.attempt_id, claim.number, claim.route, flight.outcome
        )
        with self.app.app_context():
            worker.recorder.record([result])
        worker.flights.remove(flight)
        after = self._columns(claim.dispatch.id)
        if before["state"] is not State.SENDING or before["attempts"] != claim.number:
            require_fenced(flight.outcome, before, after)

    def _columns(self, dispatch_id: uuid.UUID) -> dict[str, object]:
        table = Base.metadata.tables["dispatch"]
        with self.app.app_context():
            found = db.session.execute(select(table).where(table.c.id == dispatch_id))
            return dict(found.mappings().one())

    def finish(self, worker: Worker, behaviour: Behaviour = Behaviour.ACCEPTS) -> None:
        """Let a worker bring all that it holds to its end."""
        for flight in list(worker.flights):
            if flight.marked_at is None and not self.mark(worker, flight):
                continue
            if flight.outcome is None:
                self.call(worker, flight, behaviour)
            if flight.outcome is not None:
                self.record(worker, flight)

    def kill(self, index: int) -> None:
        """End a worker without a word; the supervisor starts another one under a new name."""
        self.workers[index] = self._start_worker()

    # Reports

    def report(
        self, message: tuple[uuid.UUID, int], what: Event, named: Named, fate: Fate = Fate.DELIVERED
    ) -> None:
        """Say something true about a message: its fate is decided by the first final report.

        Args:
            what: left out where it is not true of this message.
        """
        final = what in (Event.DELIVERED, Event.FAILED)
        if final and what not in self.truth.fates.setdefault(message, fate).events:
            return
        permanent = what is Event.FAILED and self.truth.fates[message] is not Fate.FAILED
        dispatch_id, number = message
        said = Report(
            ROUTE,
            what,
            "" if named is Named.BY_KEY else f"message-{dispatch_id}-{number}",
            key="" if named is Named.BY_ID else f"{dispatch_id}.{number}",
            permanent=permanent,
        )
        with self.app.app_context():
            receive(db.session, [said])

    def match(self) -> None:
        """Run the periodic task that applies what came too early."""
        with self.app.app_context():
            match_waiting(db.session)

    def tell_all(self) -> None:
        """Report the whole truth about every message whose fate is decided."""
        for message, fate in list(self.truth.fates.items()):
            for what in fate.events:
                self.report(message, what, Named.BY_BOTH)
            self.examine()

    # Presses, each with the confirmation that a second copy may arrive

    def press_retry(self, dispatch_id: uuid.UUID) -> bool:
        """Press "Try again"; return whether it was taken."""
        return self._press(
            lambda: retry(db.session, dispatch_id, OPERATOR, confirm_may_have_arrived=True)
        )

    def press_cancel(self, dispatch_id: uuid.UUID) -> bool:
        """Press "Cancel"; return whether it was taken."""
        return self._press(lambda: cancel(db.session, dispatch_id, OPERATOR))

    def press_resend(self, dispatch_id: uuid.UUID) -> bool:
        """Press "Resend"; return whether it was taken."""
        return self._press(lambda: resend(db.session, dispatch_id, OPERATOR, confirm=True))

    def _press(self, press: Callable[[], Dispatch]) -> bool:
        with self.app.app_context():
            try:
                press()
            except ActionRefused:
                return False
        self._drain()
        return True

    # Promises

    def examine(self) -> None:
        """Check every promise that holds after every step."""
        with self.app.app_context():
            self._promises.examine()

    def settle_down(self) -> None:
        """Let healthy steps alone bring every row to an end, and check that they do."""
        for worker in self.workers:
            self.finish(worker)
            self.examine()
        # Only now: one of them may have brought the answer that paused the route again.
        self.resume_route()
        for _ in range(12):
            if not self._unsettled():
                break
            self._healthy_round(LONGER_THAN_STALL)
        require(not self._unsettled(), "healthy steps end everything", self._unsettled())
        self._healthy_round(LONGER_THAN_ANY_WINDOW)
        left = [state for state in self.states().values() if state is State.AWAITING]
        require(not left, "what awaits a report for too long becomes unconfirmed")
        self.tell_all()
        with self.app.app_context():
            self._promises.examine_ends()

    def _healthy_round(self, seconds: int) -> None:
        self.pass_time(seconds)
        self.reconcile()
        self.release()
        jobs, self.jobs = self.jobs, []
        for index, job in enumerate(jobs):
            worker = self.workers[index % 2]
            self.claim(worker, job)
            self.finish(worker)
        self.examine()

    def _unsettled(self) -> list[State]:
        ends = (State.AWAITING, State.ERRORED)
        return [
            state for state in self.states().values() if not state.is_done and state not in ends
        ]

    def states(self) -> dict[uuid.UUID, State]:
        """Return the state of every dispatch."""
        with self.app.app_context():
            rows = db.session.execute(select(Dispatch.id, Dispatch.state).order_by(Dispatch.id))
            return {row.id: row.state for row in rows}

    def row(self, dispatch_id: uuid.UUID) -> Dispatch:
        """Return a dispatch as it is now, detached."""
        with self.app.app_context():
            row = db.session.get(Dispatch, dispatch_id)
            if row is None:
                raise ValueError("no such dispatch")
            return row
