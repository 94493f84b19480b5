"""`harness check` of an experiment that is not written yet.

In: a draft. Out: `Findings`. The texts are put into a temporary folder from which everything resolves as it
will from the real one; nothing is run but the trainer's dry run, and that only if the bundled trainer is what
the experiment uses. It is the trainer installed beside the harness, unless the person named the codebase or
the Python: a folder in which the command was merely typed may be anybody's.
"""

import re
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from harness.author.draft import Brief, Draft, composed
from harness.author.trainer_keys import TrainerKeys
from harness.blueprint import Blueprint, Problem, check_surroundings, check_trainer, read
from harness.blueprint.scaffold import sort_answers
from harness.blueprint.trainer import ask_own_trainer
from harness.config.edit import get, load

_PACKAGE = "ajet_harness-*.dist-info"
_BACKBONE = re.compile(r"ajet\.backbone is refused")


@dataclass(frozen=True)
class Findings:
    """Sentences for people, each with what to do. `needs`: what this machine or this version does not have;
    the experiment is as it should be all the same."""

    problems: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check(draft: Draft, brief: Brief, keys: TrainerKeys) -> Findings:
    """What is wrong with the draft. Raises ScaffoldError where it cannot even be composed."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent).resolve() / draft.name
        texts = composed(draft, brief, folder)
        folder.mkdir()
        for name, text in texts.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        plan = check_surroundings(read(folder / "blueprint.md", brief.cwd))
        plan = check_trainer(plan) if _is_named(draft, brief) else _checked_from_elsewhere(plan)
        config = texts.config or ""
        found: dict[str, list[str]] = {"error": [], "need": [], "warning": []}
        found["error"] += [
            f"the protected key {key} is not a key of the trainer — write it in full, as list_keys shows it"
            for key in plan.protected_keys
            if config and not keys.knows(key)
        ]
        for problem in plan.problems:
            if _BACKBONE.search(problem.message):
                found["need"].append(_need(problem, config))
            else:
                text = f"{problem.message} — {problem.fix}".replace(f"{folder}/", "")
                found[problem.severity].append(text)
    return Findings(*(tuple(each) for each in found.values()))


def _is_named(draft: Draft, brief: Brief) -> bool:
    """True if the person named the folder or the Python, whose code is run then."""
    blueprint = draft.blueprint
    assert blueprint is not None
    sections = sort_answers(brief.given, blueprint.template)[0]
    has_own = blueprint.codebase_dir not in ("", ".", "./", str(brief.cwd))  # refused unless it is named
    return has_own or bool(sections.get("codebase_dir") or sections.get("venv_exe"))


def _checked_from_elsewhere(plan: Blueprint) -> Blueprint:
    """`check_trainer` without running anything of the codebase: its Python is looked at, not started."""
    if plan.launch_command is not None or not plan.can_run or plan.yaml_path is None:
        return plan
    verdict = ask_own_trainer(plan.yaml_path, plan.codebase_dir)
    found = [Problem(1, text, mend, severity) for text, mend, severity in verdict.remarks]
    if verdict.failure:
        found.append(Problem(1, verdict.failure, "install this package again"))
    if plan.venv_exe != Path(sys.executable):
        found.append(_unasked(plan.venv_exe))
    return replace(plan, problems=(*plan.problems, *found))


def _unasked(python: Path) -> Problem:
    """The finding about a Python that was not run."""
    if any(python.parent.parent.glob(f"lib/python*/site-packages/{_PACKAGE}")):
        what = f"{python} was not run: the check was made with the trainer installed beside the harness"
        return Problem(1, what, "`harness check` asks this Python itself", "warning")
    what = f"the Python {python} of the codebase does not have the bundled trainer"
    return Problem(1, what, "use the one that runs the harness (python: harness), or name the one to use")


def _need(problem: Problem, config: str) -> str:
    """A backbone that is not here, in words about machines."""
    data = load(config)
    backbone = get(data, "ajet.backbone")
    gpus = get(data, "ajet.trainer_common.n_gpus_per_node")
    machine = f"a machine with {gpus} GPUs" if isinstance(gpus, int) else "a machine with GPUs"
    said = problem.message.partition("refused: ")[2]
    return f"needs {machine} and a trainer that has the backbone {backbone}; the trainer here says: {said}"
