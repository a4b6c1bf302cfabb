"""The sending loop of one worker process: claim into free slots, mark, call, record in waves.

The main thread alone touches the database; the threads of the pool alone call providers. So no
transaction, lock or connection is held while a provider is called.
"""

import logging
import uuid
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from dashboard import clock
from dashboard.database import db
from dashboard.dispatch import claims
from dashboard.dispatch.claims import Claim, Taker
from dashboard.dispatch.outcomes import Result
from dashboard.dispatch.states import Channel
from dashboard.providers.base import Key, Outcome, OutcomeKind, Provider
from dashboard.providers.registry import RouteInvalid, email_route, sms_route
from dashboard.settings import Settings
from jobs.preparation import Prepared, prepare
from jobs.recorder import Recorder, in_transaction
from jobs.unclaimed import look_into, put_back

logger = logging.getLogger("wireroom.worker")

WAVE = 16
WAVE_SECONDS = 0.25
MARK_VALID_SECONDS = 5.0


@dataclass(slots=True)
class Call:
    """A provider call under way."""

    claim: Claim
    started: float
    overdue: bool = False


class Sender:
    """Sends what a queue's jobs name; one for each worker process."""

    def __init__(self, settings: Settings, worker: str) -> None:
        self.settings = settings
        self.stopping = False
        self._worker = worker
        self._providers = providers_of(settings)
        capabilities = {
            (channel, one.name): one.capabilities for channel, one in self._providers.items()
        }
        self.recorder = Recorder(settings, worker, capabilities)
        self._pool = ThreadPoolExecutor(settings.send_concurrency, thread_name_prefix="provider")
        self._calls: dict[Future[Outcome], Call] = {}

    def work(self, ids: Sequence[uuid.UUID], queue: str) -> None:
        """Send these dispatches, and siblings of theirs into the slots that stay free.

        Returns when all that it claimed is recorded, at most `SEND_BATCH` beyond its own.
        """
        try:
            self._send(deque(ids), queue, most=self.settings.send_batch + len(ids))
        finally:
            # Whatever goes wrong with the next ones: what was handed over is recorded.
            while self._under_way():
                self._collect()
        self.recorder.wait_for_database(lambda: self.stopping)

    def close(self) -> None:
        """Write or spool what is kept, give back threads and connections; the calls are over."""
        self.recorder.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for provider in self._providers.values():
            provider.close()

    def _send(self, own: deque[uuid.UUID], queue: str, *, most: int) -> None:
        taken, more = 0, True
        while own or more or self._under_way():
            limit = min(WAVE, self.settings.send_concurrency - len(self._calls))
            if limit > 0 and (own or more):
                claimed = self._next(own, queue, limit)
                taken += len(claimed)
                more = len(claimed) == limit and taken < most
                self._hand_over(claimed)
            self._collect()

    def _under_way(self) -> bool:
        return any(not call.overdue for call in self._calls.values())

    def _next(self, own: deque[uuid.UUID], queue: str, limit: int) -> list[Claim]:
        """Claim what comes next; nothing when the worker stops or the database is away."""
        batch = [own.popleft() for _ in range(min(limit, len(own)))]
        more = not own and len(batch) < limit
        claimed = None
        if not self.stopping:
            claimed = in_transaction(lambda: self._claim(batch, queue, limit, siblings=more))
        if claimed is None:
            put_back([*batch, *own], queue)
            own.clear()
        return claimed or []

    def _claim(
        self, own: Sequence[uuid.UUID], queue: str, limit: int, *, siblings: bool
    ) -> list[Claim]:
        """Claim own ones, and siblings when these are the last own ones."""
        taker = Taker(
            worker=self._worker,
            queue=queue,
            routes={channel: provider.name for channel, provider in self._providers.items()},
            own=own,
            siblings=siblings,
        )
        claimed = claims.claim(db.session, taker, limit)
        db.session.commit()
        missing = set(own) - {one.dispatch.id for one in claimed}
        if missing:
            look_into(missing, queue)
        return claimed

    def _hand_over(self, claimed: Sequence[Claim]) -> None:
        """Build the messages, mark the hand-over, and let the threads call the providers."""
        if not claimed:
            return
        built = in_transaction(lambda: prepare(claimed, self.settings))
        if built is None:
            return
        prepared, failed = built
        self._record(failed)
        marked_at = clock.monotonic()
        marked = self._mark([one.claim for one in prepared])
        for one in prepared:
            if one.claim.attempt_id in marked:
                self._submit(one, marked_at)

    def _mark(self, wanted: Sequence[Claim]) -> set[uuid.UUID]:
        """Mark hand-overs, committed; step back from those that may not go out any more.

        Where the database is away nothing is called: the reconciler finds the rows by their age.
        """
        if not wanted:
            return set()
        marked = in_transaction(lambda: claims.mark(db.session, wanted))
        if marked is None:
            return set()
        refused = [(one.dispatch.id, one.attempt_id) for one in wanted]
        refused = [one for one in refused if one[1] not in marked]
        if refused:
            self.recorder.step_back(refused)
        return marked

    def _submit(self, one: Prepared, marked_at: float) -> None:
        """Start a call, unless this process was stopped for so long that somebody took over."""
        if clock.monotonic() - marked_at > MARK_VALID_SECONDS:
            marked_at = clock.monotonic()
            if not self._mark([one.claim]):
                return
        provider = self._providers[one.claim.dispatch.channel]
        future = self._pool.submit(_call, provider, one, marked_at)
        self._calls[future] = Call(one.claim, clock.monotonic())

    def _collect(self) -> None:
        """Wait for calls to end, up to a quarter of a second or a wave, and record them."""
        if not self._calls:
            self.recorder.flush()
            return
        until = clock.monotonic() + WAVE_SECONDS
        done: set[Future[Outcome]] = set()
        while len(done) < min(WAVE, len(self._calls)) and clock.monotonic() < until:
            left = max(0.0, until - clock.monotonic())
            ended, _ = wait(set(self._calls) - done, timeout=left, return_when=FIRST_COMPLETED)
            done |= ended
        results = [_result(self._calls.pop(future).claim, _outcome(future)) for future in done]
        self._record([*results, *self._overdue()])

    def _overdue(self) -> list[Result]:
        """Return an unknown outcome for each call that passed the deadline without an answer."""
        deadline = self.settings.send_deadline_seconds
        late = [
            call
            for call in self._calls.values()
            if not call.overdue and clock.monotonic() - call.started > deadline
        ]
        for call in late:
            call.overdue = True
        silence = Outcome(OutcomeKind.UNKNOWN, detail=f"No answer within {deadline:.0f} s.")
        return [_result(call.claim, silence) for call in late]

    def _record(self, results: Sequence[Result]) -> None:
        if results:
            self.recorder.record(results)


def providers_of(settings: Settings) -> dict[Channel, Provider]:
    """Return the provider of each channel; one that is configured wrong takes nothing, loudly."""
    providers: dict[Channel, Provider] = {}
    for channel, build in ((Channel.EMAIL, email_route), (Channel.SMS, sms_route)):
        try:
            providers[channel] = build(settings)
        except RouteInvalid as error:
            logger.error("route invalid", extra={"channel": channel.value, "error": str(error)})
    return providers


def _call(provider: Provider, one: Prepared, marked_at: float) -> Outcome:
    """Call the provider in a thread of the pool; never touches the database.

    A thread that starts too late does not call: the mark it stands on may be nobody's any more.
    """
    if clock.monotonic() - marked_at > MARK_VALID_SECONDS:
        return Outcome(OutcomeKind.TRANSIENT, detail="The worker was stopped before the call.")
    claim = one.claim
    key = Key(str(claim.dispatch.id), claim.number, claim.idempotency)
    return provider.send(one.message, key)


def _outcome(future: Future[Outcome]) -> Outcome:
    """Return what a call came to; one that raised may have arrived, and costs no other's."""
    error = future.exception()
    if error is None:
        return future.result()
    logger.error("provider call raised", exc_info=error)
    return Outcome(OutcomeKind.UNKNOWN, detail=f"{type(error).__name__}: {error}"[:2000])


def _result(claim: Claim, outcome: Outcome) -> Result:
    row = claim.dispatch
    return Result(row.id, claim.attempt_id, claim.number, claim.route, outcome, channel=row.channel)
