"""The facts of a run as a model asks for them, after its results were collected.

In: the evidence that its narrative may cite, and the runs of the same experiment before this one. Out: text.
"""

from harness import actions, earlier_runs
from harness.agent.excerpts import NotShownError, fitted, masked
from harness.environment import known_secrets
from harness.experiment import Experiment
from harness.results.narrative import sections
from harness.results.narrative.evidence import CitationError, Evidence, lines_of
from harness.results.narrative.findings import ChangeFinding
from harness.state import ExperimentState

_MOST_EARLIER = 10


def facts(action: actions.Facts, experiment: Experiment, evidence: Evidence) -> str:
    """Ids and values of the facts that have all the words, and what earlier runs came to."""
    found = lines_of(evidence, action.query)
    if not found and action.query:
        raise NotShownError(f"no fact has all of {action.query!r} in its id or label; use one shorter word")
    own, known = experiment.state.experiment_id, earlier_runs.of_blueprint(experiment.blueprint)
    others = [run for run in known if run.state.experiment_id != own]
    earlier = [f"- {run.folder.name}: {_came_to(run.state)}" for run in others[-_MOST_EARLIER:]]
    title = ["earlier runs of this experiment, to judge by; they cannot be cited:"] if earlier else []
    lines = masked([*found, *title, *earlier], known_secrets(experiment.dir))
    return fitted("", lines, lambda place: "ask for fewer with query=…", 0.8)


def compare(action: actions.Compare, experiment: Experiment, evidence: Evidence) -> str:
    """A metric at two steps: the sentence that a finding of it becomes, and the ids of both values."""
    asked = {"kind": "change", "metric": action.metric, "from": action.a, "to": action.b}
    try:
        change = evidence.resolve(ChangeFinding.model_validate(asked))
    except CitationError as error:
        raise NotShownError(str(error)) from error
    ids = " and ".join(change.values[end].id for end in ("earlier", "later"))
    return f"{sections.worded(change, 'en')}\n(the values are {ids}; [low, high] is a 95 % interval)"


def _came_to(state: ExperimentState) -> str:
    """How a run ended, and its result."""
    if state.verdict is None:
        return "not finished"
    result = (state.reported.result if state.reported is not None else None) or {}
    value = f", {result['metric']} {result['text']} at {result['at']}" if result else ""
    return f"{state.verdict.outcome.value}{value}"
