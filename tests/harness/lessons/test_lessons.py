"""Lessons: what a finished experiment teaches, what later ones do with it, and proposed signatures."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.attempt import Diagnosis
from harness.diagnosis.signatures import load
from harness.lessons import all_lessons, knowledge, learn, preferred, proposals
from harness.lessons.knowledge import lessons_of
from harness.pending_changes import Change, PendingChanges
from harness.state import AttemptState, ExperimentState
from tests.harness.runs import end, found


def attempt(number: int, why: Diagnosis | None, steps: int, draft: Any = None) -> AttemptState:
    ended = end({"complete": why is None, "last_step": steps})
    draft = draft or PendingChanges()
    return AttemptState(
        number, "ajet_x", f"x-{number:02d}", "why", launched_at=1.0, ended=ended, diagnosis=why, draft=draft
    )


def repaired(remedy: str) -> PendingChanges:
    change = Change("config", "a.b", 2, 1, "it was too much", remedy)
    return PendingChanges(config={"a.b": 1}, changes=(change,))


OOM = found({"signature": "gpu_oom_update", "family": "gpu_oom", "cause": "too much"})
BUG = found(
    {
        "signature": None,
        "family": "unknown",
        "cause": "The training raised FooError: part 17 of '/data/x' broke",
        "captures": {"type": "lib.FooError", "said": "lib.FooError: part 17 of '/data/x' broke at 0x7f3c"},
    }
)


def state(*attempts: AttemptState, id: str = "e1") -> ExperimentState:
    return ExperimentState(experiment_id=id, name="x", attempts=attempts)


def cured(why: Diagnosis, draft: PendingChanges | None, id: str = "e1") -> ExperimentState:
    """An attempt that failed for this, and one that came to its end."""
    return state(attempt(1, why, 5), attempt(2, None, 40, draft), id=id)


class TestWhatIsLearnt:
    @pytest.mark.parametrize(
        ("draft", "remedies", "by"),
        [
            (repaired("halve"), ("halve",), "playbook"),
            (None, ("wait_and_retry",), "playbook"),
            (repaired(""), (), "model"),
        ],
    )
    def test_what_led_to_the_end_has_cured(
        self, draft: PendingChanges | None, remedies: tuple[str, ...], by: str
    ) -> None:
        assert lessons_of(state(), now=9.0) == []
        (lesson,) = lessons_of(cured(OOM, draft), now=9.0)
        assert (lesson.failure, lesson.result) == ("gpu_oom_update", "cured")
        assert (lesson.remedies, lesson.by) == (remedies, by)

    @pytest.mark.parametrize("failure", [OOM, BUG])
    @pytest.mark.parametrize(("steps", "result"), [(9, "moved_on"), (5, "no_effect"), (0, "no_effect")])
    def test_only_steps_gained_mean_that_it_moved_on(self, failure: Any, steps: int, result: str) -> None:
        after = attempt(2, failure, steps, repaired("halve"))
        first, second = lessons_of(state(attempt(1, OOM, 5), after), now=9.0)
        assert first.result == result
        assert (second.result, second.remedies) == ("not_repaired", ())

    def test_secrets_stay_out(self) -> None:
        told = replace(BUG, cause="The training raised AuthError: api_key=abcd1234efgh5678 is not valid")
        change = Change("environment", "OPENAI_API_KEY", None, "sk-abcdefghijklmnop1234567890", "it was old")
        draft = PendingChanges(environment={"OPENAI_API_KEY": "x"}, changes=(change,))
        learn(state(attempt(1, told, 5), attempt(2, OOM, 9, draft)), 9.0)
        kept = knowledge.path().read_text()
        assert "efgh" not in kept and "abcdefghijklmnop" not in kept
        assert "moved_on" in kept and "it was old" in kept


class TestTheFile:
    def test_nothing_is_learnt_twice_and_only_its_owner_may_read_it(self) -> None:
        for now in (9.0, 10.0):
            learn(cured(OOM, repaired("halve")), now)
        assert len(knowledge.path().read_text().splitlines()) == 1
        assert [lesson.at for lesson in all_lessons()] == [9.0]
        assert knowledge.path().stat().st_mode & 0o077 == 0

    def test_a_line_that_was_cut_off_stays_by_itself(self) -> None:
        learn(state(attempt(1, OOM, 5)), 9.0)
        with knowledge.path().open("a") as file:
            file.write('nonsense\n{"at": 1}\n{"cut of')
        learn(state(attempt(1, OOM, 5), id="e2"), 9.0)
        assert [lesson.experiment_id for lesson in all_lessons()] == ["e1", "e2"]

    def test_a_line_of_another_version_or_of_nothing_is_no_lesson_but_a_new_field_does_no_harm(self) -> None:
        learn(cured(OOM, repaired("halve")), 9.0)
        good = {**json.loads(knowledge.path().read_text()), "experiment_id": "e2"}
        wrong: dict[str, Any] = {"result": "worse", "remedies": "abc", "failure": None, "attempt": "1"}
        damaged = [{"remedies": ["b"], name: value} for name, value in wrong.items()]
        lines = [json.dumps({**good, **damage}) for damage in (*damaged, {"remedies": [1, None]})]
        lines += ["[" * 100_000, "\0\ufffd" * 9, '{"at": ' + "9" * 5000 + "}", "1", ""]
        with knowledge.path().open("a") as file:
            file.write("\n".join(lines) + "\n")
        assert [lesson.experiment_id for lesson in all_lessons()] == ["e1"]
        assert preferred(OOM) == ("halve",)
        knowledge.path().write_text(json.dumps({**good, "new": 1}))
        assert len(all_lessons()) == 1

    @pytest.mark.parametrize("odd", ["\u2028", "\x85", "\x0b", "\ud800"])
    def test_a_line_ends_with_a_line_feed_only(self, odd: str) -> None:
        learn(state(attempt(1, replace(BUG, cause=f"broken{odd}part"), 5)), 9.0)
        assert len(all_lessons()) == 1

    def test_what_worked_is_preferred_and_what_failed_is_not(self) -> None:
        failed = state(attempt(1, OOM, 5), attempt(2, OOM, 5, repaired("b")))
        for story in (failed, cured(OOM, repaired("c"), "e2"), replace(failed, experiment_id="e3")):
            learn(story, 9.0)
        assert preferred(OOM) == ("c",)
        assert preferred(found({"signature": "another"})) == ()


def proposed(diagnosis: Diagnosis = BUG, change: str = "a change", source: str = "x") -> Path:
    file = proposals.propose(diagnosis, [change], source)
    assert file is not None
    return file


class TestProposals:
    def test_an_unknown_failure_that_was_solved_is_proposed_and_knows_its_like_again(self) -> None:
        learn(cured(BUG, repaired("")), 9.0)
        (file,) = proposals.proposed()
        target = proposals.accept(file.stem, "dataset_error", "A part of the data is broken.")
        assert not proposals.proposed()
        (signature,) = [each for each in load().signatures if each.id == file.stem]
        assert (signature.family, signature.cause) == ("dataset_error", "A part of the data is broken.")
        clause = signature.when[0]
        assert clause.exception is not None and clause.exception.search("other.module.FooError")
        assert clause.message is not None
        assert clause.message.search("FooError: part 3 of '/mnt/y' broke at 0x1")
        assert not clause.message.search("FooError: the whole broke")
        assert target.read_text().startswith("#")

    def test_neither_a_known_failure_nor_one_that_was_not_solved_is_proposed(self) -> None:
        learn(cured(OOM, repaired("")), 9.0)
        learn(state(attempt(1, BUG, 5), attempt(2, BUG, 5, repaired("")), id="e2"), 9.0)
        assert not proposals.proposed()

    def test_accepting_needs_a_family_and_an_existing_proposal(self) -> None:
        file = proposed()
        for name, family, says in (
            ("../../etc/passwd", "auth", "no proposal is called"),
            (file.stem, None, "needs a family"),
            (file.stem, "no_such_family", "none of those"),
        ):
            with pytest.raises(proposals.ProposalError, match=says):
                proposals.accept(name, family, None)
        assert file.exists()

    def test_what_was_masked_is_left_open(self) -> None:
        said = "login to the judge failed for api_key=sk-abcdefghijklmnop1234567890 at once"
        change = "set OPENAI_API_KEY=sk-abcdefghijklmnop1234567890"
        file = proposed(replace(BUG, captures={"type": "", "said": said}), change)
        assert "abcdefghijklmnop" not in file.read_text()
        (clause,) = yaml.safe_load(file.read_text())[0]["when"]
        assert re.search(clause["message"], said.replace("abcd", "wxyz"))
        assert not re.search(clause["message"], "login to the judge failed")

    @pytest.mark.parametrize("text", ["- id: [a", "[]", "- 1", "null", "- a: 1\n- b: 2\n", "[" * 9999])
    def test_one_that_a_person_has_damaged_is_not_accepted(self, text: str) -> None:
        file = proposed()
        file.write_text(text)
        with pytest.raises(proposals.ProposalError):
            proposals.accept(file.stem, "auth", None)

    def test_nor_one_whose_id_another_file_has(self) -> None:
        first = proposed()
        accepted = proposals.accept(first.stem, "auth", None)
        mine = accepted.rename(accepted.with_name("mine.yaml"))
        first.write_text(mine.read_text())
        with pytest.raises(proposals.ProposalError, match=r"mine\.yaml has a signature learnt_"):
            proposals.accept(first.stem, "auth", None)
        assert not accepted.exists()

    @pytest.mark.parametrize("odd", ["\n", "\r", "\u2028", "\x85"])
    def test_where_it_comes_from_stays_a_comment(self, odd: str) -> None:
        file = proposed(source=f"attempt 1 of a{odd}- id: b")
        assert len(yaml.safe_load(file.read_text())) == 1

    def test_a_person_can_reject_one(self) -> None:
        proposals.reject(proposed().stem)
        assert not proposals.proposed()

    def test_a_cause_that_a_model_named_is_proposed_with_its_family_as_the_models(self) -> None:
        named = replace(
            BUG, family="rate_limit", cause="By openai:m: {3} callers.", by="openai:m", failure="x"
        )
        learn(cured(named, repaired("halve")), 9.0)
        (file,) = proposals.proposed()
        proposals.accept(file.stem, None, None)
        (signature,) = [each for each in load().signatures if each.id == file.stem]
        assert (signature.family, signature.cause) == ("rate_limit", "By openai:m: (3) callers.")
