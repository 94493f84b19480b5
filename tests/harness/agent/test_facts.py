"""Facts that a model asks for: ids, intervals, comparisons of two steps, and earlier runs."""

from pathlib import Path

import pytest

from harness.actions import Action, Compare, Facts
from harness.agent.look import look
from harness.agent.view import citable
from harness.experiment import Experiment
from harness.results.narrative.evidence import listing
from tests.harness.results.journals import collected_run


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return Experiment(collected_run(tmp_path / "run"), lambda: 0.0)


def shown(action: Action, experiment: Experiment) -> str:
    found = look(action, experiment, citable(experiment.dir, experiment.journal.entries))
    return found.text or f"refused: {found.error}"


def test_facts_are_found_by_words_and_have_intervals_and_n(experiment: Experiment) -> None:
    found = shown(Facts(query="val/ pass_rate@1"), experiment).split("\n")
    assert all("pass_rate@1" in line for line in found)
    measured = [line for line in found if line.startswith("val/")]
    assert measured[-1] == "val/12/task_pass_rate@1 = 0.875 [0.821, 0.929], n 24"
    whole = listing(citable(experiment.dir, experiment.journal.entries))
    lines = [line for line in whole.split("\n") if line.startswith("val/STEP/task_pass_rate@1: 0 = ")]
    assert len(lines) == 1 and lines[0].endswith("; 12 = 0.875 [0.821, 0.929], n 24")
    assert "no fact has all of 'zebra'" in shown(Facts(query="zebra"), experiment)


def test_two_steps_are_compared_with_the_interval_of_their_paired_difference(experiment: Experiment) -> None:
    found = shown(Compare(metric="val/task_pass_rate@1"), experiment)
    assert "paired over the" in found and "[" in found and "the values are val/0/task_pass_rate@1" in found
    assert "there is no metric 'val/fame'" in shown(Compare(metric="val/fame"), experiment)


def test_before_there_are_results_there_are_no_facts(experiment: Experiment) -> None:
    assert "no results yet" in look(Facts(), experiment).error
