"""What a model writes is sent back with the reasons, at most twice per section; then it is struck."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness import journal
from harness.agent.actions import WriteReportSection
from harness.agent.types import Observation
from harness.guard import rules as guard
from harness.guard.unborne import MAX_CORRECTIONS
from harness.state import fold
from tests.harness.results.journals import Story, repaired_run

WRONG = "The pass rate rose from 0.123 to 0.987."


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    repaired_run(tmp_path)
    return tmp_path


def words(text: str, section: str = "findings") -> WriteReportSection:
    return WriteReportSection.model_validate({"section": section, "text": text})


def seen(folder: Path) -> Observation:
    state = fold(journal.read(folder / "journal.jsonl"))
    return Observation(replace(state, narrative={}), state.created_at, result_dir=folder)


def send_back(folder: Path, section: str) -> None:
    """One more refusal of this section in the journal."""
    story = Story(list(journal.read(folder / "journal.jsonl")))
    story.add("refused", action="write_report_section", args={"section": section, "text": WRONG}, why="wrong")
    story.write(folder)


def test_each_wrong_statement_is_named_with_its_reason(finished: Path) -> None:
    refusal = guard.check(words(WRONG), seen(finished))
    assert refusal is not None
    assert "0.123 is nowhere in the raw files" in refusal and "task_pass_rate@1 at step 0 is" in refusal


def test_what_is_borne_out_is_taken(finished: Path) -> None:
    assert guard.check(words("Attempts 1 and 2 failed; attempt 3 ran to its end."), seen(finished)) is None


def test_a_section_is_sent_back_only_so_often(finished: Path) -> None:
    for _ in range(MAX_CORRECTIONS):
        assert guard.check(words(WRONG), seen(finished)) is not None
        send_back(finished, "findings")
    assert guard.check(words(WRONG), seen(finished)) is None
    assert guard.check(words(WRONG, "what_happened"), seen(finished)) is not None


def test_limitations_are_the_last_place_to_name_what_failed(finished: Path) -> None:
    said = words("There is only one seed.", "limitations")
    observation = seen(finished)
    assert "does not mention that attempt 1 and attempt 2 failed" in str(guard.check(said, observation))
    told = {"what_happened": "Attempt 1 ran out of memory."}
    observation = replace(observation, state=replace(observation.state, narrative=told))
    assert guard.check(said, observation) is None


def test_odd_files_make_no_error(finished: Path) -> None:
    observation = seen(finished)
    (finished / "attempts/03/metrics.jsonl").write_bytes(b'\xff\x00{"step": []}\n{"values": 3}\n')
    (finished / "attempts/03/trainer/validation.jsonl").write_text("[]\n{}\n")
    (finished / "attempts/02/config.yaml").write_text("{{{{")
    guard.check(words(WRONG), observation)
    (finished / "journal.jsonl").write_text("not a journal\n")
    guard.check(words(WRONG), observation)
    (finished / "journal.jsonl").unlink()
    assert guard.check(words(WRONG), observation) is None
