"""`harness check` of an experiment that is not written yet.

In: a draft. Out: `Findings`. The texts are put into a temporary folder from which everything resolves as it
will from the real one; nothing is run but the trainer's dry run, and that only if the bundled trainer is what
the experiment uses.
"""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.author.draft import Brief, Draft, composed
from harness.author.trainer_keys import TrainerKeys
from harness.blueprint import Problem, check_surroundings, check_trainer, read
from harness.config_edit import get, load

_BACKBONE = re.compile(r"ajet\.backbone is refused")


@dataclass(frozen=True)
class Findings:
    """Sentences for people, each with its mend. `needs`: what this machine or this version does not have;
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
        plan = check_trainer(check_surroundings(read(folder / "blueprint.md", brief.cwd)))
        config = texts.config or ""
        unknown = [key for key in plan.protected_keys if config and not keys.knows(key)]
        problems = [
            f"the protected key {key} is not a key of the trainer — write it in full, as list_keys shows it"
            for key in unknown
        ]
        needs: list[str] = []
        warnings: list[str] = []
        for problem in plan.problems:
            if _BACKBONE.search(problem.message):
                needs.append(_need(problem, config))
            else:
                where = problems if problem.severity == "error" else warnings
                where.append(f"{problem.message} — {problem.mend}".replace(f"{folder}/", ""))
    return Findings(tuple(problems), tuple(needs), tuple(warnings))


def _need(problem: Problem, config: str) -> str:
    """A backbone that is not here, in words about machines."""
    data = load(config)
    backbone = get(data, "ajet.backbone")
    gpus = get(data, "ajet.trainer_common.n_gpus_per_node")
    machine = f"a machine with {gpus} GPUs" if isinstance(gpus, int) else "a machine with GPUs"
    said = problem.message.partition("refused: ")[2]
    return f"needs {machine} and a trainer that has the backbone {backbone}; the trainer here says: {said}"
