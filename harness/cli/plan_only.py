"""`harness run --read-only`: what would be launched, without launching, writing or changing anything."""

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from harness.actions import LOOKING, Action, Check, Launch, Note, Prepare
from harness.agent import loop
from harness.agent.executor import Executor
from harness.agent.policies import make_policy
from harness.cli.console import console, fail
from harness.journal.events import ActionResult, Noted, Prepared
from harness.pending_changes import PREPARING

if TYPE_CHECKING:
    from harness.blueprint import Blueprint
    from harness.experiment import Experiment
    from harness.options import RunOptions

PATIENCE_S = 60.0


class _EffectError(Exception):
    """The policy came to the first action that would have an effect, its argument."""


class PlanningExecutor(Executor):
    """Looks and prepares in a folder that is thrown away; stops where the world would change."""

    async def act(self, action: Action) -> ActionResult | None:
        if isinstance(action, Prepare):
            return Prepared()
        harmless = isinstance(action, (*LOOKING, Check, Note)) or action.kind in PREPARING
        if not harmless or action.kind == "patch_code":
            raise _EffectError(action)
        return await super().act(action)

    async def ask_for_approval(self, action: Action) -> tuple[Action, str | None]:
        return action, None


def plan_only(blueprint: "Blueprint", options: "RunOptions", text: str | None = None) -> None:
    """Print what a run of this blueprint would begin with; exit status 2 when it could not. `text`: the
    blueprint, where it is in no file yet."""
    from harness.experiment import begin

    with tempfile.TemporaryDirectory() as folder:
        experiment = begin(blueprint, Path(folder), options, text=text)
        try:
            action = asyncio.run(_first_effect(experiment))
            _print(experiment, blueprint, action)
        finally:
            experiment.close()


async def _first_effect(experiment: "Experiment") -> Action:
    executor = PlanningExecutor(experiment)
    try:
        await loop.run(executor, make_policy(experiment, executor.interrupted, PATIENCE_S))
    except _EffectError as reached:
        return reached.args[0]
    raise AssertionError("a run that ends without an effect")


def _print(experiment: "Experiment", blueprint: "Blueprint", action: Action) -> None:
    out, state = console(), experiment.state
    who = state.options.policy if state.options.model is None else f"llm, {state.options.model}"
    out.print(f"read only: nothing was launched or written. Who decides: {who}")
    for change in state.draft.changes:
        out.print(f"would change  {change.in_words}")
    for noted in experiment.journal.of(Noted):
        out.print(f"note          {noted.text}")
    for text in state.checked.warnings if state.checked else ():
        out.print(f"warning       {text}")
    if not isinstance(action, Launch):
        problems = state.checked.problems if state.checked else ()
        fail("; ".join(problems) or "it would end without a launch")
    command = blueprint.launch_command or f"{blueprint.venv_exe} -m trainer_core.cli --conf CONFIG"
    out.print(f"would launch  {command}")
    out.print(f"in            {blueprint.codebase_dir}")
    out.print(f"results       {blueprint.result_dir}")
