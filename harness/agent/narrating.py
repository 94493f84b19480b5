"""Words about the results of a run that has ended: the question that a run asks at its end, asked later.

In: a finished result folder and a model. Out: the sections. The journal is sealed, so what is asked and
answered goes to a copy of it, which is thrown away.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.actions import LOOKING, Action, Note, ProposeNext, WriteSections
from harness.agent import loop
from harness.agent.executor import Executor
from harness.agent.llm import LlmPolicy
from harness.errors import UserError
from harness.experiment import Experiment
from harness.journal import Event, Owner, read
from harness.journal.events import ActionResult, Intent
from harness.journal.model_events import Consult
from harness.llm_use import WORDS
from harness.providers.model import Model
from harness.results.narrative.added import Added

TIME_S = 3600.0


class NoWordsError(UserError):
    """Nothing was written that can be kept; the text says why."""


async def narrate(
    result_dir: Path, model_word: str, opened: Callable[[Callable[[Event], object]], Model]
) -> Added:
    """What a model has to say about a finished run. `opened` makes the model, given what records its calls.
    Raises NoWordsError."""
    with tempfile.TemporaryDirectory() as folder:
        experiment = _AsItStood(result_dir, Path(folder), model_word)
        try:
            return await _words(experiment, opened(experiment.record))
        finally:
            experiment.close()


async def _words(experiment: Experiment, model: Model) -> Added:
    if not any(attempt.launched_at for attempt in experiment.state.attempts):
        raise NoWordsError(f"{experiment.dir} launched nothing: there is nothing to write about")
    before = experiment.state.llm
    experiment.record(Consult(WORDS, "the results are to be read"))
    executor = _Writing(experiment)
    try:
        await loop.run(executor, LlmPolicy(experiment, model, executor.interrupted))
    except _DoneError:
        pass
    finally:
        await model.close()
    written, after = experiment.state.narrative, experiment.state.llm
    if not written:
        raise NoWordsError(after.unanswered.get(WORDS, "the model has nothing to add"))
    cost = after.cost_usd - before.cost_usd if model.price is not None else None
    read = after.tokens.all_input_tokens - before.tokens.all_input_tokens
    output = after.tokens.output_tokens - before.tokens.output_tokens
    return Added(written, after.model, after.calls - before.calls, read, output, cost)


class _AsItStood(Experiment):
    """A run as it stood before its end, with a journal of its own for what follows."""

    def __init__(self, result_dir: Path, scratch: Path, model_word: str) -> None:
        entries = read(result_dir / self.FILE)
        end = next(
            entry.seq
            for entry in entries
            if isinstance(entry.event, Intent) and entry.event.action == "finish"
        )
        lines = (result_dir / self.FILE).read_bytes().splitlines(keepends=True)
        (scratch / self.FILE).write_bytes(b"".join(lines[: end - 1]))
        super().__init__(scratch)
        self.dir = result_dir
        self.record(Owner.this_process(self.clock))
        options = replace(self.state.options, policy="llm", model=model_word)
        deadline_at = self.clock() + TIME_S
        self.state = replace(
            self.state, options=options, deadline_at=deadline_at, stop_asked=None, narrative={}
        )


class _DoneError(Exception):
    """The policy came to the first action that does not look or write."""


class _Writing(Executor):
    """Lets a policy look and write sections, and ends where it wants anything else."""

    def refuse(self, action: Action) -> str | None:
        if isinstance(action, ProposeNext):
            return "the run has ended and nothing else is put beside it: say it in next_steps"
        return super().refuse(action)

    async def act(self, action: Action) -> ActionResult | None:
        if not isinstance(action, (*LOOKING, Note, WriteSections)):
            raise _DoneError
        return await super().act(action)
