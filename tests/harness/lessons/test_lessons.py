"""Lessons: what a finished experiment teaches, what later ones do with it, and proposed signatures."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.draft import Change, Draft
from harness.lessons import all_lessons, knowledge, learn, preferred, proposing
from harness.lessons.learning import lessons_of
from harness.state import AttemptState, ExperimentState


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def attempt(
    number: int, diagnosis: dict[str, Any] | None, steps: int, draft: Draft | None = None
) -> AttemptState:
    return AttemptState(
        number,
        "ajet_x",
        f"x-{number:02d}",
        "why",
        launched_at=1.0,
        ended={"complete": diagnosis is None, "last_step": steps},
        diagnosis=diagnosis,
        draft=draft or Draft(),
    )


def repaired(remedy: str) -> Draft:
    change = Change("config", "a.b", 2, 1, "it was too much", remedy)
    return Draft(config={"a.b": 1}, changes=(change,))


OOM = {"signature": "gpu_oom_update", "family": "gpu_oom", "cause": "too much"}
BUG = {
    "signature": None,
    "family": "unknown",
    "cause": "The training raised FooError: part 17 of '/data/x' broke",
    "captures": {"type": "lib.FooError", "said": "lib.FooError: part 17 of '/data/x' broke at 0x7f3c"},
}


def state(*attempts: AttemptState, id: str = "e1") -> ExperimentState:
    return ExperimentState(experiment_id=id, name="x", attempts=attempts)


class TestWhatIsLearnt:
    def test_a_repair_that_led_to_the_end_has_cured(self) -> None:
        (lesson,) = lessons_of(state(attempt(1, OOM, 5), attempt(2, None, 40, repaired("halve"))), now=9.0)
        assert (lesson.failure, lesson.remedies, lesson.result) == ("gpu_oom_update", ("halve",), "cured")
        assert lesson.by == "playbook"

    def test_the_same_failure_without_a_step_gained_means_no_effect(self) -> None:
        first, second = lessons_of(state(attempt(1, OOM, 5), attempt(2, OOM, 5, repaired("halve"))), now=9.0)
        assert first.result == "no_effect"
        assert (second.result, second.remedies) == ("not_repaired", ())

    @pytest.mark.parametrize(
        "after", [attempt(2, OOM, 9, repaired("halve")), attempt(2, BUG, 1, repaired("halve"))]
    )
    def test_more_steps_or_another_failure_means_that_it_moved_on(self, after: AttemptState) -> None:
        assert lessons_of(state(attempt(1, OOM, 5), after), now=9.0)[0].result == "moved_on"

    def test_a_plain_restart_is_a_remedy_too(self) -> None:
        (lesson,) = lessons_of(state(attempt(1, OOM, 5), attempt(2, None, 40)), now=9.0)
        assert lesson.remedies == ("wait_and_retry",)

    def test_what_no_remedy_made_was_decided_by_a_model(self) -> None:
        (lesson,) = lessons_of(state(attempt(1, OOM, 5), attempt(2, None, 40, repaired(""))), now=9.0)
        assert (lesson.by, lesson.remedies) == ("model", ())


class TestTheFile:
    def test_nothing_is_learnt_twice(self) -> None:
        told = state(attempt(1, OOM, 5), attempt(2, None, 40, repaired("halve")))
        learn(told, 9.0)
        learn(told, 10.0)
        assert len(knowledge.path().read_text().splitlines()) == 1
        assert [lesson.at for lesson in all_lessons()] == [9.0]

    def test_broken_lines_are_passed_over(self) -> None:
        learn(state(attempt(1, OOM, 5)), 9.0)
        with knowledge.path().open("a") as file:
            file.write('nonsense\n{"at": 1}\n{"cut of')
        learn(state(attempt(1, OOM, 5), id="e2"), 9.0)
        assert [lesson.experiment_id for lesson in all_lessons()] == ["e1", "e2"]

    def test_it_is_for_its_owner_only(self) -> None:
        learn(state(attempt(1, OOM, 5)), 9.0)
        assert knowledge.path().stat().st_mode & 0o077 == 0

    def test_what_worked_is_preferred_and_what_failed_is_not(self) -> None:
        for number, (remedy, steps, complete) in enumerate(
            [("b", 5, False), ("c", 40, True), ("b", 5, False)]
        ):
            end = attempt(2, None if complete else OOM, steps, repaired(remedy))
            learn(state(attempt(1, OOM, 5), end, id=f"e{number}"), 9.0)
        assert preferred(OOM) == ("c",)
        assert preferred({"signature": "another"}) == ()


class TestProposals:
    def test_an_unknown_failure_that_was_solved_is_proposed_and_knows_its_like_again(self) -> None:
        learn(state(attempt(1, BUG, 5), attempt(2, None, 40, repaired(""))), 9.0)
        (file,) = proposing.proposed()
        target = proposing.accept(file.stem, "dataset_error", "A part of the data is broken.")
        assert not proposing.proposed()
        from harness.diagnosis.signatures import load

        (signature,) = [each for each in load().signatures if each.id == file.stem]
        assert (signature.family, signature.cause) == ("dataset_error", "A part of the data is broken.")
        clause = signature.when[0]
        assert clause.exception is not None and clause.exception.search("other.module.FooError")
        assert clause.message is not None
        assert clause.message.search("FooError: part 3 of '/mnt/y' broke at 0x1")
        assert not clause.message.search("FooError: the whole broke")
        assert target.read_text().startswith("#")

    def test_a_known_failure_is_not_proposed(self) -> None:
        learn(state(attempt(1, OOM, 5), attempt(2, None, 40, repaired(""))), 9.0)
        assert not proposing.proposed()

    def test_nor_is_one_that_was_not_solved(self) -> None:
        learn(state(attempt(1, BUG, 5), attempt(2, BUG, 5, repaired(""))), 9.0)
        assert not proposing.proposed()

    def test_accepting_needs_a_family_and_an_existing_proposal(self) -> None:
        with pytest.raises(proposing.ProposalError, match="no proposal is called"):
            proposing.accept("../../etc/passwd", "auth", None)
        file = proposing.propose(BUG, ["a change"], "x")
        assert file is not None
        with pytest.raises(proposing.ProposalError, match="needs a family"):
            proposing.accept(file.stem, None, None)
        with pytest.raises(proposing.ProposalError, match="none of those"):
            proposing.accept(file.stem, "no_such_family", None)
        assert file.exists()

    def test_secrets_stay_out(self) -> None:
        told = {
            **BUG,
            "captures": {"type": "", "said": "login failed for api_key=sk-abcdefghijklmnop1234567890"},
        }
        file = proposing.propose(told, ["set OPENAI_API_KEY=sk-abcdefghijklmnop1234567890"], "x")
        assert file is not None
        assert "abcdefghijklmnop" not in file.read_text()

    def test_a_person_can_reject_one(self) -> None:
        file = proposing.propose(BUG, ["a change"], "x")
        assert file is not None and yaml.safe_load(file.read_text())[0]["id"] == file.stem
        proposing.reject(file.stem)
        assert not proposing.proposed()
