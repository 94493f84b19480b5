"""The experiment that would settle what is open: written as `next/`, checked like any other, never started.

In: what a model proposes after a run, or a sweep's contrasts that its seeds could not decide. Out: a
`sweep.yaml`, or a `blueprint.md` with its `config.yaml`, and the `NextStep` that the report prints. What
follows a sweep gets as many seeds as the power calculation asks for.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.actions import ProposeNext
from harness.atomic_write import write_atomically
from harness.blueprint import Blueprint, check_surroundings, check_trainer, read
from harness.blueprint.types import MetricSpec
from harness.environment import known_secrets
from harness.experiment import Experiment
from harness.redaction import Secrets, redact
from harness.results.comparing.types import Comparison, Contrast, Point
from harness.results.next_step import FOLDER, NextStep
from harness.sweep import points
from harness.sweep.create import rehearse
from harness.sweep.design import make_plan
from harness.sweep.plan import SweepError, SweepFolder, SweepPlan, SweepRun
from harness.sweep.points import check_keys
from harness.sweep.proposal import MOST_RUNS, refusals
from harness.sweep.spec import SweepSpec
from harness.sweep.spec_text import checked, read_spec, to_yaml
from harness.templating import render
from harness.wording import did_you_mean


def after_run(asked: ProposeNext, experiment: Experiment) -> str:
    """Write what a model proposes after this run; the command that starts it. Raises SweepError."""
    from harness.results.collect import collect
    from harness.results.result import metric_names

    folder, author = experiment.dir, experiment.state.options.model or ""
    metrics, known = tuple(metric_names(collect(folder))), known_secrets(folder)
    return of_model(asked, experiment.blueprint, folder, author, metrics, known).command


def of_model(
    asked: ProposeNext,
    blueprint: Blueprint,
    result_dir: Path,
    author: str,
    metrics: tuple[str, ...],
    known: Secrets,
) -> NextStep:
    """What a model proposes after a run that measured `metrics`. Raises SweepError with what is wrong."""
    _check(asked, metrics)
    words = redact(asked.question, known), redact(asked.why, known), author
    with _emptied(result_dir) as folder:
        if asked.vary:
            return _sweep(_spec(asked, blueprint, words[0]), blueprint, folder, words)
        return _run(asked, blueprint, folder, words)


def of_sweep(compared: Comparison, folder: SweepFolder) -> NextStep | None:
    """As many seeds as the contrasts need that were tested and not decided, which are fresh seeds, so that
    nothing is looked at twice; None where there are none, or more runs were needed than MOST_RUNS. Raises
    SweepError, OSError."""
    keys = {key.name: key for key in compared.study.keys}
    undecided, seeds = _affordable(
        [one for one in compared.contrasts if one.key in keys and one.finding == "no detectable difference"]
    )
    if not undecided:
        return None
    spec = read_spec(folder.spec)
    levels: dict[str, list[Any]] = {}
    for one in undecided:
        levels.setdefault(one.key, [one.baseline]).append(one.level)
    others = {name: key.baseline for name, key in keys.items() if name not in levels}
    first = 1 + max(run.seed for run in compared.study.runs if run.seed is not None)
    fields = spec.model_dump(exclude_unset=True) | {
        "blueprint": spec.blueprint,
        "name": f"{folder.dir.name}-next"[:64],
        "vary": {key: {"values": values, "baseline": values[0]} for key, values in levels.items()},
        "set": {**spec.set, **others},
        "design": "one-at-a-time",
        "samples": None,
        "seeds": list(range(first, first + seeds)),
        "metric": compared.metric,
        "expect": [item.model_dump() for item in spec.expect if item.level in levels.get(item.key, ())],
    }
    why = render("sweeps/next.txt.j2", undecided=undecided, seeds=seeds).strip()
    with _emptied(folder.dir) as target:
        return _sweep(checked(fields), read(spec.blueprint), target, (spec.question, why, ""))


def _affordable(contrasts: list[Contrast]) -> tuple[list[Contrast], int]:
    """Those that can be decided within MOST_RUNS, the cheapest first, and the seeds per point for all."""
    needed = [(seeds, one) for one in contrasts if (seeds := _seeds_for(one)) is not None]
    taken: list[Contrast] = []
    most = 0
    for seeds, one in sorted(needed, key=lambda each: each[0]):
        if (2 + len(taken)) * seeds > MOST_RUNS:
            break
        taken, most = [*taken, one], seeds
    return taken, most


def _seeds_for(contrast: Contrast) -> int | None:
    """Seeds per point that tell two points like these (difference, scatter) apart in four of five cases."""
    from harness.results.stats import seeds_needed

    if not contrast.difference or not contrast.effect:
        return None
    scatter = contrast.difference / contrast.effect
    return seeds_needed(contrast.difference, 2 * scatter**2, 2.0)


def _check(asked: ProposeNext, metrics: tuple[str, ...]) -> None:
    refused = refusals(asked.vary, asked.set, asked.seed_key)
    if not asked.vary and not asked.set:
        refused.append("nothing differs from this run: give vary, or set")
    if asked.metric and asked.metric not in metrics:
        hint = did_you_mean(asked.metric, metrics)
        refused.append(f"metric: this run has no {asked.metric!r}{hint}")
    if refused:
        raise SweepError("; ".join(refused))


def _spec(asked: ProposeNext, blueprint: Blueprint, question: str) -> SweepSpec:
    fields: dict[str, Any] = {
        "blueprint": blueprint.path,
        "name": f"{blueprint.name[:59]}-next",
        "question": question,
        "vary": {key: {"values": list(values)} for key, values in asked.vary.items()},
        "set": dict(asked.set),
        "design": "one-at-a-time",
        "seeds": asked.seeds,
        "metric": asked.metric,
    }
    return checked({**fields, "seed_key": asked.seed_key or None})


def _sweep(spec: SweepSpec, blueprint: Blueprint, folder: Path, words: tuple[str, str, str]) -> NextStep:
    plan = make_plan(spec, blueprint)
    if len(plan.runs) > MOST_RUNS:
        raise SweepError(f"{len(plan.runs)} runs, and at most {MOST_RUNS} may be proposed")
    rehearse(plan, blueprint)
    path = folder / "sweep.yaml"
    write_atomically(path, to_yaml(spec), mode=0o600)
    return _kept(f"harness sweep {shlex.quote(str(path))}", folder, words)


def _run(asked: ProposeNext, blueprint: Blueprint, folder: Path, words: tuple[str, str, str]) -> NextStep:
    """One run with other settings, as a blueprint of its own, in which the metric that will tell leads."""
    run, point = SweepRun(FOLDER, FOLDER, None), Point(FOLDER, {}, True)
    settings = checked({"blueprint": "x", "vary": {"any": [0, 1]}, "set": dict(asked.set)}).set
    plan = SweepPlan("", "", str(blueprint.path), "grid", (), (point,), (run,), "", settings)
    base = points.Base(blueprint, points.config_text(blueprint), blueprint.codebase_dir)
    check_keys(plan, blueprint, base.config)
    place = SweepFolder(folder)
    made, config = points.run_of(plan, run, base, place)
    path = folder / "config.yaml" if config is not None else None
    command = made.launch_command and made.launch_command.replace(str(place.run_config(run.name)), str(path))
    result_dir = blueprint.result_dir.with_name(f"{blueprint.name}-next")
    made = replace(made, name=result_dir.name, purpose=words[0], yaml_path=path, launch_command=command)
    if asked.metric:
        made = replace(made, metrics=replace(made.metrics or MetricSpec(()), metric=asked.metric))
    if path is not None:
        write_atomically(path, config or "", mode=0o600)
    target = folder / "blueprint.md"
    write_atomically(target, points.for_readers(replace(made, result_dir=result_dir)), mode=0o600)
    plan_read = check_trainer(check_surroundings(read(target)))
    if plan_read.errors:
        raise SweepError(plan_read.errors)
    return _kept(f"harness run {shlex.quote(str(target))}", folder, words)


def _kept(command: str, folder: Path, words: tuple[str, str, str]) -> NextStep:
    step = NextStep(command, *words)
    step.write(folder)
    return step


@contextmanager
def _emptied(result_dir: Path) -> Iterator[Path]:
    """`next/` of the folder, without what was proposed before; it goes again where nothing comes of it."""
    folder = result_dir / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder)
        raise
