"""The plan as it is printed: everything a person decides by is there, at 80 columns."""

import io
import json
import os
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any
from unittest import mock

import pytest
import typer

from harness.cli.show_sweep import plan_json, print_plan
from harness.codec import decode
from harness.earlier_runs import Estimate
from harness.results.comparing.types import Expectation
from harness.sweep.design import forecast
from harness.sweep.plan import SweepPlan
from tests.harness.sweep.plans import grid


def a_plan(design: str = "grid", levels: int = 3, seeds: int = 3, **changes: Any) -> SweepPlan:
    kl = [0.001 * number for number in range(levels)]
    own = {"design": design, "question": "Does it matter?", "parallel": 2}
    own |= {"seed_key": "ajet.trainer_common.seed", **changes}
    vary = {"ajet.trainer_common.kl_loss_coef": kl, "arg:--lr": ["1e-4", "3e-4"]}
    return grid(vary, range(seeds), **own)


def printed(plan: SweepPlan, estimate: float | None = None, most: float = 3600.0) -> str:
    with mock.patch.dict(os.environ, COLUMNS="80"), redirect_stdout(io.StringIO()) as text:
        print_plan(plan, forecast(plan, estimate, most))
    return text.getvalue()


@pytest.mark.parametrize("levels", [2, 30])
def test_every_point_is_a_line_of_at_most_80_columns(levels: int) -> None:
    lines = printed(a_plan(levels=levels)).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("p") and line[1].isdigit() for line in lines) == 2 * levels
    assert [line.split() for line in lines if "  baseline" in line] == [["p01", "0.0", "1e-4", "baseline"]]


def test_what_one_decides_by_is_said() -> None:
    expected = (Expectation("arg:--lr", "3e-4", "none", "too close"),)
    more = {"metric": "val/x", "goal": "min", "budget_s": 3600.0, "expectations": expected}
    plan = a_plan(settings={"a.steps": 60}, canary={"a.steps": 2}, **more)
    shown = " ".join(printed(plan, estimate=Estimate(600.0, "earlier runs of this blueprint")).split())
    for said in (
        "6 points (all combinations) x 3 seeds (0, 1, 2, as ajet.trainer_common.seed) = 18 runs, 2 at once",
        "a.steps = 60, in all points",
        "steps = 2; the rest starts when this short run has succeeded",
        "about 10m 00s a run (earlier runs of this blueprint), 1h 30m in all",
        "at most 1h 00m a run, 9h 00m in all",
        "1h 00m: not enough; 12 of 18 runs, by what is expected",
        "val/x, lower is better",
        "arg:--lr = 3e-4: no effect (too close)",
        "two points must differ by 3.51 standard deviations between seeds",
    ):
        assert said in shown


def test_what_is_not_known_is_said_too() -> None:
    shown = " ".join(printed(a_plan(seeds=1)).split())
    for said in (
        "unknown, at most 1h 00m a run, 3h 00m in all",
        "no limit",
        "the one that the purpose speaks of, as the first run that ends names it",
        "one seed: nothing can be said about other seeds",
        "the first run: the others start when its first step is seen",
    ):
        assert said in shown


def test_one_at_a_time_shows_only_what_differs_and_markup_as_text() -> None:
    lines = printed(a_plan("one-at-a-time")).splitlines()
    assert ["p02", "·", "3e-4"] in [line.split() for line in lines]
    assert "· as in the baseline" in lines
    shown = printed(a_plan(question="[bold]why[/nothing]", settings={"a.b": "[red]x"}))
    assert "[bold]why[/nothing]" in shown and "[red]x" in shown


def test_json_has_the_plan_and_the_forecast() -> None:
    plan = a_plan()
    found = json.loads(json.dumps(plan_json(plan, forecast(plan, Estimate(10.0, "one"), 100.0))))
    assert decode(SweepPlan, found["plan"]) == plan
    assert (found["points"], found["runs"], found["all_s"], found["most_all_s"]) == (6, 18, 90.0, 900.0)
    assert found["two_points"] == pytest.approx(3.51, abs=0.01)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("given", "stdin", "goal"),
    [
        ({"metric": "heat"}, Terminal("n\n"), "min"),
        ({"metric": "heat"}, io.StringIO(), None),
        ({"metric": "heat", "goal": "max"}, Terminal(), "max"),
        ({}, Terminal(), None),
    ],
)
def test_d5_a_direction_that_nobody_knows_is_asked_in_a_terminal_and_never_assumed(
    given: dict[str, Any], stdin: io.StringIO, goal: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[SweepPlan] = []

    def make(spec: Any, plan: SweepPlan, *_: Any) -> None:
        made.append(plan)
        raise OSError("no disk")

    monkeypatch.setattr("harness.sweep.create.make", make)
    monkeypatch.setattr("sys.stdin", stdin)
    cli = import_module("harness.cli.sweep")
    plan = a_plan(**given)
    if goal is None and given:
        assert "whether higher or lower is better is not known" in " ".join(printed(plan).split())
    with pytest.raises(typer.Exit):
        cli._start(cli._Asked(None, None, plan), False, False, ())
    assert [one.goal for one in made] == [goal]
