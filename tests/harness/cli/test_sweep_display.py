"""What is seen of a sweep while it runs, on terminals of every size and elsewhere."""

import asyncio
import io
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from harness.cli import progress
from harness.cli.sweep_display import LINE_EVERY_S, News, display_for, render
from harness.sweep.plan import SweepPlan
from harness.sweep.run_files import Progress
from harness.sweep.state import Closing, RunAsks, RunEnded, RunGoesOn, RunLeftOut, Sweep
from harness.sweep.status import SweepStatus, status
from tests.harness.sweep.sweep_states import (
    BEGIN,
    CHECKED,
    Timed,
    ended,
    plan,
    started,
    state,
    succeeded,
    write,
    write_metrics,
)

FIVE = plan({"ajet.kl_loss_coef": [0.001, 0.0, 0.003, 0.01, 0.03]}, budget_s=43_200.0)
SIXTY = plan(
    {"kl": [1, 2, 3, 4, 5], "ajet.lr": ["1e-6", "3e-6", "1e-5"], "repeat": [4, 8, 16, 32]}, parallel=3
)


def stands(made: SweepPlan, *events: Timed, at: float = 1000.0) -> SweepStatus:
    return status(state(made, CHECKED, *events), BEGIN + at, lambda run: Progress(120, 240))


def drawn(now: SweepStatus, width: int = 80, height: int = 24, sweep: str = "") -> list[str]:
    """The lines that a terminal shows, without colours."""
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, color_system=None)
    console.print(render(now, width, height, sweep))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def row(lines: Iterable[str], label: str) -> str:
    return next(line for line in lines if line.startswith(label))


def test_five_points_at_80_columns() -> None:
    values = {"p01-s0": 0.75, "p01-s1": 0.85, "p02-s0": 0.9}
    events = [event for run, value in values.items() for event in succeeded(0, 600, run, value)]
    events += [started(0, "p03-s0"), ended(9, "p03-s0", "failed", "out of memory"), started(600, "p04-s0")]
    lines = drawn(stands(FIVE, *events, (700, RunLeftOut("p05-s2", "stopped"))))
    assert lines[0] == "ablation  running"
    assert lines[1] == "3 of 15 runs done, 1 running, 1 failed, 9 queued, 1 not run"
    assert "16m 40s so far" in lines[2] and "budget 12h 00m, 11h 43m left" in lines[2]
    assert lines[3] == "best so far  0.900 (one seed)  kl_loss_coef=0.0  task_pass_rate@1"
    assert row(lines, "baseline").endswith(" 0.800 (2 of 3 seeds)")
    shown = [" ".join(row(lines, f"kl_loss_coef={level} ").split()[1:]) for level in ("0.0", "0.003", "0.03")]
    assert shown == ["✓ 0.900 · · 0.900 (one seed)", "✗ failed · · –", "· · – –"]
    assert "▸ 120/240" in row(lines, "kl_loss_coef=0.01")
    assert row(lines, "point").endswith("mean so far") and "seed 2" in row(lines, "point")


def test_what_a_person_must_do_stands_above_all_else() -> None:
    asks = [RunAsks(run, 7, "k", "May it be lower?\n-lr: 1\n+lr: 0.1") for run in ("p01-s0", "p02-s0")]
    other = RunAsks("p03-s0", 7, "j", "Which?", ("a", "b"))
    begun = [started(0, f"p0{n}-s0") for n in (1, 2, 3)]
    lines = drawn(stands(FIVE, *begun, *((100, each) for each in asks)), sweep="here")
    assert lines[:2] == [
        "answer with `harness approve here`: 2 runs ask: May it be lower?",
        "ablation  running",
    ]
    assert lines[2].startswith("0 of 15 runs done, 1 running, 2 waiting for an answer")
    lines = drawn(stands(FIVE, *begun, *((100, each) for each in (*asks, other))), sweep="here")
    assert lines[0].startswith("answer with `harness approve here/p01-s0`: 2 runs ask")
    assert lines[1] == "answer with `harness approve here/p03-s0 --choose a`: 1 run asks: Which?"
    answered = [(100, asks[0]), (900, RunGoesOn("p01-s0")), (920, started(0, "p01-s0", 2)[1])]
    now = stands(FIVE, started(0, "p01-s0"), *answered)
    assert [run.took_s for run in now.runs if run.stage == "running"] == [180.0] and not now.to_answer("here")


def test_sixty_points_show_first_what_one_wants_to_see() -> None:
    names = [run.name for run in SIXTY.runs]
    events = [each for at, name in enumerate(names[:40]) for each in succeeded(0, 50, name, at / 100)]
    events += [started(60, name) for name in names[50:53]]
    events += [started(60, names[45]), ended(90, names[45], "lost")]
    lines = drawn(stands(SIXTY, *events))
    first = next(number for number, line in enumerate(lines) if line.startswith("point")) + 1
    assert all("▸" in line for line in lines[first : first + 3])
    assert "✗" in lines[first + 3]
    assert "0.390 (one seed)" in lines[first + 4] and "0.380" in lines[first + 5], "then the best"
    shown = len(lines) - first - 2
    assert lines[-2] == f"… {60 - shown} more points"


@pytest.mark.parametrize(
    "made", [FIVE, SIXTY, plan({"k": list(range(600))}), plan({"k": [1, 2]}, seeds=range(40))]
)
@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (40, 10), (20, 4), (80, 2)])
def test_never_larger_than_the_terminal(made: SweepPlan, width: int, height: int) -> None:
    half = made.runs[: len(made.runs) // 2]
    events = [event for run in half for event in succeeded(0, 50, run.name, 0.123)]
    lines = drawn(stands(made, *events), width, height)
    assert len(lines) <= height - 1
    assert max(map(cell_len, lines)) <= width


def test_columns_stand_below_each_other_whatever_the_labels_are() -> None:
    made = plan({"键.长": ["値" * 30, "b\x1b[2J\nc", "👩‍🔬 x"]})
    lines = drawn(stands(made, *succeeded(0, 1, "p02-s0", 0.5)), width=100)
    assert not any("\x1b" in line for line in lines) and "b c" in " ".join(lines)
    rows = lines[lines.index(row(lines, "point")) : -1]
    assert {cell_len(line[: line.index("·")]) for line in rows[1:2]} == {cell_len(rows[0].split("seed 0")[0])}


def test_many_seeds_are_a_sign_each() -> None:
    made = plan({"k": [1, 2]}, seeds=range(10))
    begun = [started(6, "p01-s1"), started(6, "p01-s2")]
    events = [*succeeded(0, 5, "p01-s0", 0.5), *begun, ended(8, "p01-s2", "failed")]
    assert row(drawn(stands(made, *events)), "baseline").split()[1:3] == ["✓▸✗·······", "120/240"]


def test_a_single_seed_is_marked_even_when_more_were_planned() -> None:
    lines = drawn(stands(plan({"k": [1, 2]}, seeds=(None,)), *succeeded(0, 5, "p01", 0.5)))
    assert "(one seed)" in row(lines, "baseline") and "run" in row(lines, "point")


def test_lines_tell_of_every_run_once_and_now_and_then_how_it_stands() -> None:
    events: list[Timed] = [CHECKED, started(1, "p01-s0")]
    seconds = [0.0]

    def at_step_3() -> SweepStatus:
        return status(state(FIVE, *events), BEGIN + 90, lambda run: Progress(3, 240))

    news = News(at_step_3, lambda: seconds[0])
    first = [line.split("] ", 1)[1] for line in news()]
    assert first == ["p01-s0: started", "running: 0 of 15 runs done, 1 running, 14 queued"]
    assert list(news()) == []
    events += [ended(61, "p01-s0", "failed", "CUDA out of\n\x1b[2Jmemory"), started(62, "p02-s0", job=2)]
    events += [(70.0, Closing("the budget of the sweep is used up"))]
    assert [line.split("] ", 1)[1] for line in news()] == [
        "p01-s0: failed after 1m 00s: CUDA out of memory",
        "p02-s0: goes on with job 2",
        "no run is started any more: the budget of the sweep is used up",
    ]
    seconds[0] += LINE_EVERY_S + 1
    assert "0 of 15 runs done, 1 running, 1 failed" in next(iter(news()))
    seconds[0] += LINE_EVERY_S + 1
    assert list(news()) == [], "nothing has changed"


@pytest.fixture
def sweep(tmp_path: Path) -> Iterable[Sweep]:
    folder = write(tmp_path / "ablation", FIVE, CHECKED, started(2, "p01-s0"))
    write_metrics(folder / "p01-s0", 17)
    opened = Sweep(folder, lambda: BEGIN + 10)
    yield opened
    opened.close()


async def shown_for_a_moment(sweep: Sweep) -> None:
    display = display_for(sweep)
    drawing = asyncio.ensure_future(display.run())
    await asyncio.sleep(0)
    drawing.cancel()
    with suppress(asyncio.CancelledError):
        await drawing
    sweep.record(RunEnded(run="p01-s0", outcome="succeeded", reason=""))
    display.close()


async def test_a_pipe_gets_lines(sweep: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    await shown_for_a_moment(sweep)
    lines = capsys.readouterr().out.splitlines()
    assert "p01-s0: started" in lines[0] and "p01-s0: succeeded" in lines[-1]


async def test_a_terminal_gets_a_picture(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    screen = Console(file=file, force_terminal=True, width=80, height=24, color_system=None)
    monkeypatch.setattr(progress, "console", lambda: screen)
    monkeypatch.setattr("harness.cli.sweep_display.is_terminal", lambda: True)
    await shown_for_a_moment(sweep)
    first, _, last = file.getvalue().partition("✓ no value")
    assert "▸ step 17" in first and "1 running" in first and "1 of 15 runs done" in first
    assert last.rstrip().endswith("\x1b[?25h"), "the cursor is back"
