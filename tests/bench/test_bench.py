"""`wireroom bench`: it measures what runs, and sends nothing where real people would get it."""

import re
from contextlib import closing

import pytest
from click.testing import CliRunner

import dashboard.settings as current_settings
from dashboard.commands.bench import bench
from dashboard.commands.bench_rounds import Bench, Mode, memory_mb
from tests.installation import here

__all__ = ["here"]


@pytest.fixture
def settings_of_a_real_route(settings):
    before = current_settings.current()
    current_settings.use(settings.model_copy(update={"email_provider": "smtp"}))
    yield
    current_settings.use(before)


@pytest.mark.usefixtures("settings_of_a_real_route")
def test_it_refuses_to_measure_a_route_to_real_people():
    result = CliRunner().invoke(bench, ["--messages", "1"])
    assert result.exit_code == 1
    assert "Nothing was sent" in result.output


@pytest.mark.parametrize("mode", list(Mode))
def test_a_round_accepts_and_waits_until_all_went_out(here, mode):
    worker = here.processes.worker(WIREROOM_EMAIL_PROVIDER="null").ready()
    with closing(Bench(here.settings)) as this:
        measured = this.measure(mode, 150)
    assert here.states() == {"sent": 150}
    assert 0 < measured.per_second <= measured.accepted_per_second
    assert 0 < measured.p50_ms <= measured.p95_ms
    assert memory_mb(worker.pid) > 10


@pytest.mark.bench
@pytest.mark.parametrize("provider", ["null", "sandbox", "slow"])
def test_an_installation_of_its_own_is_measured_and_gone(provider):
    command = ["--own", "--provider", provider, "--messages", "1000", "--rounds", "3"]
    result = CliRunner().invoke(bench, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert re.search(r"median singles +\d+ messages/s", result.output)
    assert re.search(r"memory worker-2 +\d+ MB", result.output)
