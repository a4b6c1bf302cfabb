"""`wireroom bench`: how many messages a second, how long accepting one takes, how much memory.

Measures the system that runs, or one of its own; what is measured is in `bench_rounds.py`.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import click

from dashboard.commands.bench_own import PROVIDERS, own_installation
from dashboard.commands.bench_rounds import Bench, Measured, Mode, TooSlow, memory_mb
from dashboard.settings import Settings, SettingsInvalid, current, read_servers_file

HARMLESS = frozenset({"null", "sandbox"})


@click.command()
@click.option("--messages", type=click.IntRange(1, 100_000), default=1000, show_default=True)
@click.option(
    "--singles/--bulk", "singles", default=None, help="One kind alone.  [default: both in turn]"
)
@click.option("--rounds", type=click.IntRange(1, 20), default=3, show_default=True)
@click.option("--own", is_flag=True, help="Start servers and workers for it, and end them.")
@click.option("--workers", type=click.IntRange(1, 16), default=2, show_default=True, help="--own.")
@click.option(
    "--provider", type=click.Choice(PROVIDERS), default="sandbox", show_default=True, help="--own."
)
def bench(
    messages: int,
    *,
    singles: bool | None,
    rounds: int,
    own: bool,
    workers: int,
    provider: str,
) -> None:
    """Send messages to nobody and say how fast it went: each round, and the medians.

    Four at a time: singles are requests of one message, bulk of 100, all with keys. Without --own
    it measures the running system, and refuses where real people would get mail. What it sent
    stays in the database, under the source `bench`.
    """
    modes = [mode for mode in Mode if singles is None or singles is (mode is Mode.SINGLES)]
    try:
        with _installation(own, workers, provider) as (settings, pids):
            with closing(Bench(settings)) as this:
                _run(this, modes, messages, rounds)
            _show_memory(pids)
    except TooSlow as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def _installation(
    own: bool,  # noqa: FBT001 - the flag of the command line, passed on once
    workers: int,
    provider: str,
) -> Iterator[tuple[Settings, Mapping[str, int]]]:
    """Yield the settings of what is measured, and its processes by name."""
    if own:
        click.echo(f"Starting servers and {workers} workers, route {provider} …")
        with own_installation(workers, provider) as started:
            yield started
        return
    settings = current()
    if not settings.database_url or not settings.redis_url:
        raise SettingsInvalid("Nothing runs here. Start it with wireroom up, or use --own.")
    if settings.is_production or settings.email_route not in HARMLESS:
        raise click.ClickException(
            f"Mail goes out by the route {settings.email_route!r} here, to real people."
            " Nothing was sent. Use --own, or set WIREROOM_EMAIL_PROVIDER to sandbox or null."
        )
    yield settings, _pids(settings.data_dir)


def _pids(data_dir: Path) -> Mapping[str, int]:
    known: Mapping[str, object] = read_servers_file(data_dir)
    pids = known.get("pids")
    return pids if isinstance(pids, dict) else {}


def _run(this: Bench, modes: Sequence[Mode], messages: int, rounds: int) -> None:
    """Do the rounds, one kind after the other in each, so that both meet the same weather."""
    found: dict[Mode, list[Measured]] = {mode: [] for mode in modes}
    for number in range(1, rounds + 1):
        for mode in modes:
            measured = this.measure(mode, messages)
            found[mode].append(measured)
            _show(f"round {number} {mode}", measured)
    for mode, some in found.items():
        _show(f"median {mode}", _median(some))


def _median(some: Sequence[Measured]) -> Measured:
    return Measured(*(statistics.median(values) for values in zip(*some, strict=True)))


def _show(title: str, measured: Measured) -> None:
    click.echo(
        f"{title:16} {measured.per_second:7.0f} messages/s"
        f"   accepted {measured.accepted_per_second:6.0f}/s"
        f"   one request p50 {measured.p50_ms:6.1f} ms, p95 {measured.p95_ms:6.1f} ms"
    )


def _show_memory(pids: Mapping[str, int]) -> None:
    known = [(name, megabytes) for name, pid in pids.items() if (megabytes := memory_mb(pid))]
    for name, megabytes in known:
        click.echo(f"memory {name:20} {megabytes:6.0f} MB")
    if known:
        click.echo(f"memory {'together':20} {sum(size for _, size in known):6.0f} MB")
