"""Workers that are killed or stand still: the message goes out once, with nobody acting."""

from dashboard.dispatch.states import State


def test_a_worker_killed_before_the_hand_over_is_replaced_and_the_message_goes_out_once(here):
    first = here.processes.gated_worker("mark")
    here.processes.keepers()
    (one,) = here.send()
    first.wait_paused()
    assert here.row(one).state is State.SENDING
    first.kill()
    second = here.processes.worker()
    here.wait_for_states(sent=1)
    assert here.sink.counts() == {str(one): 1}
    lost, done = here.attempts(one)
    assert lost.handed_over_at is None
    assert lost.lost
    assert str(second.pid) in done.worker
    assert [line.state_to for line in here.history(one)] == [
        "queued",
        "sending",
        "stalled",
        "sending",
        "sent",
    ]


def test_a_worker_killed_after_the_final_dot_is_followed_by_a_second_try_that_says_so(here):
    here.sink.hold_answers()
    first = here.processes.worker()
    here.processes.keepers()
    (one,) = here.send()
    here.wait(lambda: here.sink.counts() == {str(one): 1})
    first.kill()
    here.sink.answer()
    here.processes.worker()
    here.wait_for_states(sent=1)
    assert here.sink.counts() == {str(one): 2}, "policy resend: a duplicate, never a miss"
    notes = " ".join(line.note for line in here.history(one))
    assert "lost while the provider was being called" in notes
    assert "may have arrived twice" in notes


def test_with_the_policy_hold_it_is_unconfirmed_and_a_person_decides(here):
    here.sink.hold_answers()
    first = here.processes.worker()
    here.processes.keepers()
    (one,) = here.send(source={"unknown_outcome_email": "hold"})
    here.wait(lambda: here.sink.counts() == {str(one): 1})
    first.kill()
    here.wait_for_states(unconfirmed=1)
    assert here.row(one).maybe_sent
    assert here.sink.counts() == {str(one): 1}


def test_a_worker_that_stood_still_after_its_claim_sends_nothing_when_it_wakes(here):
    first = here.processes.gated_worker("mark")
    here.processes.keepers()
    (one,) = here.send()
    first.wait_paused()
    here.processes.worker()
    here.wait_for_states(sent=1)
    before = here.row(one)
    first.resume()
    first.wait_for("dispatch not handed over")
    assert first.stop() == 0
    assert here.sink.counts() == {str(one): 1}
    assert here.row(one).version == before.version
    assert here.row(one).updated_at == before.updated_at
