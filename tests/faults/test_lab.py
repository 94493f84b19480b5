"""Every failure of the laboratory is produced, and named by its right family with its root line as evidence;
experiments that can be repaired succeed afterwards, the others fail with their config untouched."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from harness.diagnosis import Diagnosis, diagnose, diagnose_log
from harness.diagnosis.types import NOTHING_FAILED, UNKNOWN
from monitors.files import AttemptFiles
from monitors.logs import ESCAPES
from tests.e2e.bench import Bench
from tests.faults.lab.cases import CASES, HEALTHY
from tests.faults.lab.run import environment, run, why_not
from tests.faults.lab.types import Case, Produced
from tests.faults.lab.warm import WarmInterpreter, warm_when_asked
from tests.faults.lab.whole.carry_out import Story, carry_out
from tests.faults.lab.whole.experiments import FORESEEN, HOPELESS, MENDED_BEFORE, REPAIRED
from tests.faults.lab.whole.types import Experiment
from tests.harness.runs import end as as_end

SURE = 0.5
ALWAYS = ("port_of_the_config_taken", "open_files", "disk_full_of_checkpoints", "reward_bug")
Warm = Callable[[], WarmInterpreter]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name tells nothing of the case that runs in it."""
    return tmp_path_factory.mktemp("exp")


@pytest.fixture(scope="module")
def warm(scratch: Path) -> Iterator[Warm]:
    with warm_when_asked({**os.environ, **environment(scratch)}) as interpreter:
        yield interpreter


@pytest.fixture
def produced(request: pytest.FixtureRequest, scratch: Path, warm: Warm) -> Produced:
    """The case of this test, produced."""
    case: Case = request.getfixturevalue("case")
    if (reason := why_not(case)) is not None:
        pytest.skip(reason)
    return run(case, scratch / f"{(*CASES, *HEALTHY).index(case):03d}", warm)


def assert_evidence_is_in_the_log(found: Diagnosis, log: Path) -> None:
    lines = ESCAPES.sub("", log.read_bytes().decode(errors="replace")).split("\n")
    for item in (*found.evidence, *found.last_lines):
        assert item.text.strip() in lines[item.line - 1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cause_is_named_with_its_line(case: Case, produced: Produced) -> None:
    in_attempt = diagnose(AttemptFiles(produced.log.parent), as_end(produced.ended))
    assert in_attempt.family in case.families, in_attempt
    assert in_attempt.transient or not case.transient
    if not case.root:
        return
    found = diagnose_log(produced.log)
    assert found.family in case.families, found
    assert any(case.root in item.text for item in found.evidence), found.evidence
    assert_evidence_is_in_the_log(found, produced.log)


@pytest.mark.parametrize("case", HEALTHY, ids=lambda case: case.name)
def test_a_healthy_log_is_not_called_ill(case: Case, produced: Produced) -> None:
    found = diagnose_log(produced.log)
    assert found.family in (UNKNOWN, NOTHING_FAILED) or found.confidence < SURE, found
    assert_evidence_is_in_the_log(found, produced.log)


def some(experiments: Sequence[Experiment]) -> list[object]:
    """All of them as parameters; all but a few only in `make soak`."""
    marks = {each.name: () if each.name in ALWAYS else (pytest.mark.soak,) for each in experiments}
    return [pytest.param(each, id=each.name, marks=marks[each.name]) for each in experiments]


def carried_out(experiment: Experiment, folder: Path) -> Story:
    if experiment.needs_root and os.getuid() != 0:
        pytest.skip("needs root for a mount")
    story = carry_out(experiment, Bench(folder))
    assert story.diagnoses, story.output
    assert story.diagnoses[0].family in experiment.families, story.diagnoses[0]
    return story


@pytest.mark.parametrize("experiment", some(REPAIRED))
def test_what_can_be_repaired_is_and_the_experiment_succeeds(experiment: Experiment, tmp_path: Path) -> None:
    story = carried_out(experiment, tmp_path)
    assert (story.flag["outcome"], story.status) == ("succeeded", 0), story.output
    assert story.changed == experiment.edits
    assert experiment.variables == story.variables
    assert experiment.attempts in (None, story.flag["attempts"])


@pytest.mark.parametrize("experiment", some(MENDED_BEFORE))
def test_what_the_check_finds_is_mended_before_the_first_launch(
    experiment: Experiment, tmp_path: Path
) -> None:
    story = carry_out(experiment, Bench(tmp_path))
    assert (story.flag["outcome"], story.status, story.flag["attempts"]) == ("succeeded", 0, 1), story.output
    assert story.variables == experiment.variables and not story.diagnoses
    assert experiment.told in " ".join(story.output.split()), story.output


@pytest.mark.parametrize("experiment", some(HOPELESS))
def test_what_only_a_person_can_mend_fails_untouched(experiment: Experiment, tmp_path: Path) -> None:
    story = carried_out(experiment, tmp_path)
    assert (story.flag["outcome"], story.status) == (experiment.outcome, experiment.outcome.exit_code), (
        story.output
    )
    assert story.changed == frozenset()


@pytest.mark.parametrize("experiment", some(FORESEEN))
def test_what_can_be_foreseen_is_not_launched(experiment: Experiment, tmp_path: Path) -> None:
    story = carry_out(experiment, Bench(tmp_path))
    assert story.status == 2, story.output
    assert story.flag.get("attempts", 0) == 0
    assert experiment.told in " ".join(story.output.split()), story.output
