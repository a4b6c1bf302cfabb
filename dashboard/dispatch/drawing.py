"""Draws the table of moves for the README, so that the drawing cannot say something else."""

from collections import defaultdict

from dashboard.dispatch.states import MOVES, State


def drawing() -> str:
    """Return the moves as a Mermaid state diagram: one arrow for each pair of states."""
    arrows: dict[tuple[State, State], list[str]] = defaultdict(list)
    for (source, trigger), target in MOVES.items():
        arrows[source, target].append(trigger.value)
    lines = ["stateDiagram-v2", "    [*] --> queued: request"]
    for (source, target), triggers in sorted(arrows.items(), key=_order):
        lines.append(f"    {source.value} --> {target.value}: {', '.join(triggers)}")
    return "\n".join(lines)


def _order(arrow: tuple[tuple[State, State], list[str]]) -> tuple[int, int]:
    states = list(State)
    (source, target), _ = arrow
    return states.index(source), states.index(target)
