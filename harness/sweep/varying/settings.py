"""What one run sets: its point's levels, its seed, and what all runs or the canary set beside.

In: the plan and a run. Out: key to value, by kind of key; and the names that no repair may touch.
"""

import re
from collections.abc import Mapping, Sequence

from harness.config.edit import Scalar
from harness.sweep.folder import CANARY
from harness.sweep.types import SweepPlan, SweepRun
from harness.sweep.values import Kind, kind_of


def canary_of(plan: SweepPlan) -> SweepRun:
    """The short run before all others: the first one's point and seed."""
    return SweepRun(CANARY, plan.runs[0].point, plan.runs[0].seed)


def all_runs(plan: SweepPlan) -> tuple[SweepRun, ...]:
    """The canary, if there is one, and all runs."""
    return (*([canary_of(plan)] if plan.canary else []), *plan.runs)


def of_run(plan: SweepPlan, run: SweepRun) -> dict[str, Scalar]:
    """Everything that is set for this run, key to value; what stands later wins."""
    seed: dict[str, Scalar] = {plan.seed_key: run.seed} if plan.seed_key and run.seed is not None else {}
    canary = plan.canary if run.name == CANARY else {}
    return {**plan.settings, **plan.point(run.point).levels, **seed, **canary}


def of_kind(settings: Mapping[str, Scalar], kind: Kind) -> dict[str, Scalar]:
    """The settings of one kind, by the name that the command or the environment knows them by."""
    return {bare(key): value for key, value in settings.items() if kind_of(key) == kind}


def bare(key: str) -> str:
    """A key without `arg:` or `env:`."""
    return key if kind_of(key) == "config" else key.partition(":")[2]


def varied_keys(plan: SweepPlan) -> tuple[str, ...]:
    """The keys in which runs may differ: those of the design, and the seed's."""
    seed = (plan.seed_key,) if plan.seed_key else ()
    return (*(key.name for key in plan.keys), *seed)


def protected_keys(plan: SweepPlan, given: Sequence[str]) -> tuple[str, ...]:
    """The blueprint's own protected keys and everything that the sweep sets, named as a repair would name
    it: a flag `--lr` by `lr`, a variable by its name."""
    keys = (*varied_keys(plan), *plan.settings)
    names = (re.sub("[/@]", ".", bare(key).lstrip("-+")) for key in keys)
    return tuple(dict.fromkeys((*given, *names)))


def is_about(key: str) -> str:
    """What a key concerns, in the words of the rules for repairs: `effective batch`, `validation`, …"""
    from harness.config import keys as config_keys

    name = bare(key).lstrip("-+")
    if kind_of(key) != "config":
        return config_keys.meaning((name,), is_ajet=False).about
    return config_keys.meaning(tuple(name.split(".")), is_ajet=name.startswith("ajet.")).about
