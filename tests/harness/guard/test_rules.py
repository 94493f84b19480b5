"""The rules that no policy can override, one by one: what each refuses, and what it lets through."""

from dataclasses import replace
from typing import Any

import pytest

from harness import actions
from harness.actions import Action, EditConfig, Launch, SetEnvironment, Stop
from harness.attempt import KILLED
from harness.guard import rules as guard
from harness.observation import Observation
from harness.options import RunOptions
from harness.pending_changes import PendingChanges
from harness.results.narrative.findings import Section
from harness.state import AttemptState, Outcome
from monitors.rules import Health
from tests.harness.results.narrative.written import run_evidence
from tests.harness.runs import end, found, state_with

PLAN: dict[str, Any] = {"yaml_path": "/exp/config.yaml", "codebase_dir": "/nowhere"}
PLAN |= {"launch_command": None, "protected_keys": ["ajet.rollout.max_num_seqs"]}
CONFIG = "ajet:\n  rollout: {max_num_seqs: 8, gpu_memory_utilization: 0.9}\n  trainer_common: {seed: 0}\n"
RUNNING = AttemptState(1, "ajet_x-01", "x-01", "first", launched_at=10.0)
DIAGNOSIS = found({"signature": "cuda_oom", "transient": False, "cause": "out of memory at step 3"})
FAILED = replace(RUNNING, ended=end({"status": 1, "complete": False, "last_step": 3}), diagnosis=DIAGNOSIS)
FURTHER = end({"status": 1, "complete": False, "last_step": 9})
TRANSIENT = found({"signature": "connection_lost", "transient": True, "cause": "the connection was lost"})
LESS_MEMORY = PendingChanges(config={"ajet.rollout.gpu_memory_utilization": 0.5})


def seen(*attempts: AttemptState, **changes: Any) -> Observation:
    """An observation; `changes` go to the observation if it has such a field, else to its state."""
    outer: dict[str, Any] = {"config": CONFIG}
    outer |= {key: changes.pop(key) for key in ("health", "first_step_overdue", "config") if key in changes}
    now = changes.pop("now", 100.0)
    state = state_with(plan=changes.pop("plan", PLAN), deadline_at=1000.0, attempts=attempts, **changes)
    return Observation(state, now, **outer)


def launch(attempt: int) -> Launch:
    return Launch(attempt=attempt, session="ajet_x", attempt_id="x", why="next")


def edit(**changes: Any) -> EditConfig:
    return EditConfig(changes=changes, why="w")


class TestHealthyRunsGoOn:
    FLAT = Health(plateau="validation has been flat for 4 evaluations", second_half=True)
    BROKEN = Health(fatal=("actor/kl_loss has been NaN since step 4",))

    @pytest.mark.parametrize("why", ["fatal_error", "plateau", "person", "first_step_timeout"])
    def test_neither_a_healthy_run_is_stopped_nor_one_that_is_over(self, why: Any) -> None:
        assert guard.check(Stop(why=why), seen(RUNNING)) is not None
        assert "no running attempt" in str(guard.check(Stop(why=why), seen(FAILED)))

    def test_only_what_shows_that_it_cannot_recover_or_is_flat_in_its_second_half(self) -> None:
        assert guard.check(Stop(why="fatal_error"), seen(RUNNING, health=self.BROKEN)) is None
        assert guard.check(Stop(why="plateau"), seen(RUNNING, health=self.BROKEN)) is not None
        early = seen(RUNNING, health=replace(self.FLAT, second_half=False))
        assert "first half" in str(guard.check(Stop(why="plateau"), early))
        assert guard.check(Stop(why="plateau"), seen(RUNNING, health=self.FLAT)) is None
        assert guard.check(Stop(why="fatal_error"), seen(RUNNING, health=self.FLAT)) is not None

    def test_a_person_and_an_overdue_first_step_allow_it(self) -> None:
        assert guard.check(Stop(why="person"), seen(RUNNING, stop_asked="Ctrl-C")) is None
        assert guard.check(Stop(why="first_step_timeout"), seen(RUNNING, first_step_overdue=True)) is None


class TestRepairs:
    MEMORY = edit(**{"ajet.rollout.gpu_memory_utilization": 0.6})

    BETWEEN = (
        MEMORY,
        SetEnvironment(name="OMP_NUM_THREADS", value="2", why="w"),
        actions.FreeOwned(what="processes", why="w"),
        actions.RaiseLimit(limit="open_files", why="w"),
        actions.InstallPackage(package="tqdm", why="w"),
    )

    @pytest.mark.parametrize("action", BETWEEN, ids=lambda action: action.kind)
    def test_they_come_between_attempts(self, action: Action) -> None:
        options = RunOptions(allow_install=True)
        assert guard.check(action, seen(FAILED, options=options)) is None
        assert guard.check(action, seen(options=options)) is None
        assert "still running" in str(guard.check(action, seen(RUNNING, options=options)))
        collected = seen(FAILED, options=options, collected={"outcome": "failed"})
        assert "collected" in str(guard.check(action, collected))

    def test_they_keep_the_science_and_protected_keys(self) -> None:
        assert "seed" in str(guard.check(edit(**{"ajet.trainer_common.seed": 1}), seen(FAILED)))
        assert "protected" in str(guard.check(edit(**{"ajet.rollout.max_num_seqs": 4}), seen(FAILED)))
        assert guard.check(SetEnvironment(name="LD_PRELOAD", value="x", why="w"), seen(FAILED)) is not None

    def test_they_are_judged_on_top_of_the_edits_before_them(self) -> None:
        hf = "per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\n"
        cut = PendingChanges(config={"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4})
        again = edit(per_device_train_batch_size=8, gradient_accumulation_steps=2)
        assert guard.check(again, seen(FAILED, config=hf, draft=cut)) is None
        grown = edit(per_device_train_batch_size=8)
        assert guard.check(grown, seen(FAILED, config=hf, draft=cut)) is not None

    def test_variables_and_sections_that_the_launch_command_gives_stay(self) -> None:
        command = "MASTER_PORT=29500 python t.py c.yaml --trainer.num-workers 8 model.kwargs={}"
        now = seen(FAILED, config="a: 1\n", plan={**PLAN, "yaml_path": None, "launch_command": command})
        variable = SetEnvironment(name="MASTER_PORT", value="31000", why="w")
        for action in (edit(**{"model.kwargs.x": 2}), variable):
            assert "launch command" in str(guard.check(action, now))
        for action in (edit(enforce_eager=True), variable.model_copy(update={"name": "VLLM_PORT"})):
            assert guard.check(action, now) is None

    @pytest.mark.parametrize(
        "doubt", [{"confidence": 0.4}, {"confidence": float("nan")}, {"only_nominated": True}]
    )
    def test_a_built_in_repair_needs_a_diagnosis_that_is_sure(self, doubt: dict[str, Any]) -> None:
        doubtful = replace(FAILED, diagnosis=replace(DIAGNOSIS, **doubt))
        variable = SetEnvironment(name="NCCL_P2P_DISABLE", value="1", why="w")
        for own in (self.MEMORY, variable):
            action = own.model_copy(update={"remedy": "lower"})
            assert "not sure enough" in str(guard.check(action, seen(doubtful)))
            assert guard.check(action, seen(FAILED)) is None, "it does not tell"
            assert guard.check(own, seen(doubtful)) is None, "a model's own"
            refused = seen(doubtful, checked={"can_run": False, "problems": ["p"]})
            assert guard.check(action, refused) is None, "what the check found"

    def test_a_config_that_cannot_be_edited_or_is_none_is_a_refusal_and_no_crash(self) -> None:
        for text in ("a: [\n", "- 1\n", "a: 1\na: 2\n"):
            assert guard.check(self.MEMORY, seen(FAILED, config=text, draft=LESS_MEMORY)) is not None
        batch = edit(**{"optim.micro_batch_size": 12})
        for action in (self.MEMORY, batch):
            assert "no config of this experiment is known" in str(
                guard.check(action, seen(FAILED, config=""))
            )

    def test_a_launch_is_judged_with_all_its_edits_together(self) -> None:
        smuggled = PendingChanges(config={"ajet.trainer_common.seed": 7})
        assert "seed" in str(guard.check(launch(2), seen(FAILED, draft=smuggled)))
        taken_out = PendingChanges(removed=("ajet.trainer_common.seed",))
        assert "seed" in str(guard.check(launch(2), seen(FAILED, draft=taken_out)))
        assert guard.check(launch(2), seen(FAILED, draft=LESS_MEMORY)) is None


def test_a_config_is_rendered_only_where_the_author_gave_none() -> None:
    render, free = actions.RenderConfig(settings={"lr": 1e-5}, why="w"), {**PLAN, "yaml_path": None}
    assert guard.check(render, seen(plan=free)) is None
    assert "names its config" in str(guard.check(render, seen()))
    assert "own command" in str(guard.check(render, seen(plan={**free, "launch_command": "x"})))
    assert "fixed since" in str(guard.check(render, seen(FAILED, plan=free)))


class TestLaunches:
    def test_one_at_a_time_and_none_left_out(self) -> None:
        assert guard.check(launch(1), seen()) is None
        assert guard.check(launch(2), seen()) is not None
        assert "still running" in str(guard.check(launch(2), seen(RUNNING)))
        assert guard.check(launch(1), seen(FAILED, draft=LESS_MEMORY)) is not None

    def test_the_limits(self) -> None:
        assert guard.check(launch(2), seen(FAILED, draft=LESS_MEMORY, now=1000.0)) is not None
        assert guard.check(launch(2), seen(FAILED, draft=LESS_MEMORY, stop_asked="me")) is not None
        many = [replace(FAILED, number=number) for number in range(1, guard.MAX_ATTEMPTS + 1)]
        assert "limit" in str(guard.check(launch(guard.MAX_ATTEMPTS + 1), seen(*many, draft=LESS_MEMORY)))

    def test_the_same_again_needs_a_cause_that_passes(self) -> None:
        assert "change something" in str(guard.check(launch(2), seen(FAILED)))
        assert guard.check(launch(2), seen(replace(FAILED, diagnosis=TRANSIENT))) is None
        assert "not been diagnosed" in str(guard.check(launch(2), seen(replace(FAILED, diagnosis=None))))
        done = replace(FAILED, ended=end({"complete": True}))
        assert "all that it owed" in str(guard.check(launch(2), seen(done)))

    def test_a_passing_cause_needs_progress_when_it_comes_back(self) -> None:
        first = replace(FAILED, diagnosis=TRANSIENT)
        stuck, again = replace(first, number=2), replace(first, number=3)
        further = replace(again, ended=FURTHER)
        assert guard.check(launch(3), seen(first, stuck)) is None, "one further try"
        assert "no step has been gained" in str(guard.check(launch(4), seen(first, stuck, again)))
        assert guard.check(launch(4), seen(first, stuck, further)) is None

    def test_the_same_cause_without_progress_stops_whatever_is_repaired(self) -> None:
        attempts = [replace(FAILED, number=n) for n in range(1, 5)]
        assert guard.check(launch(4), seen(*attempts[:3], draft=LESS_MEMORY)) is None
        assert "come back 3 times" in str(guard.check(launch(5), seen(*attempts, draft=LESS_MEMORY)))
        further = [*attempts[:3], replace(attempts[3], ended=FURTHER)]
        assert guard.check(launch(5), seen(*further, draft=LESS_MEMORY)) is None
        other = replace(attempts[3], diagnosis=replace(DIAGNOSIS, signature="disk_full"))
        assert guard.check(launch(5), seen(*attempts[:3], other, draft=LESS_MEMORY)) is None

    def test_a_kill_that_nothing_explains_may_come_back_once(self) -> None:
        killed = found({"signature": KILLED, "transient": True, "cause": "It was killed by SIGKILL."})
        attempts = [replace(FAILED, number=n, diagnosis=killed) for n in (1, 2)]
        assert guard.check(launch(2), seen(attempts[0])) is None
        assert "come back once" in str(guard.check(launch(3), seen(*attempts)))
        assert guard.check(launch(3), seen(*attempts, draft=LESS_MEMORY)) is None

    def test_a_repair_is_not_tried_twice_for_one_failure(self) -> None:
        second = replace(FAILED, number=2, draft=LESS_MEMORY)
        assert "tried in attempt 2" in str(guard.check(launch(3), seen(FAILED, second, draft=LESS_MEMORY)))
        less = PendingChanges(config={"ajet.rollout.gpu_memory_utilization": 0.3})
        assert guard.check(launch(3), seen(FAILED, second, draft=less)) is None
        unknown = found({"cause": "KeyError at row 17"})
        first = replace(FAILED, diagnosis=unknown)
        alike = replace(second, diagnosis=replace(unknown, cause="KeyError at row 18.5"))
        assert "tried in attempt 2" in str(guard.check(launch(3), seen(first, alike, draft=LESS_MEMORY)))


class TestPlaces:
    def test_reading_and_patching_are_judged_by_name(self) -> None:
        observation = seen(FAILED, plan={**PLAN, "code_changes": ("src/*.py",)})
        assert guard.check(actions.ReadFile(path="train.py"), observation) is None
        assert guard.check(actions.ReadFile(path="../x.py"), observation) is not None
        good = actions.PatchCode(path="src/train.py", old="1 / 0", new="1 / 2", why="w")
        assert guard.check(good, observation) is None
        outside = good.model_copy(update={"path": "train.py"})
        assert "src/*.py" in str(guard.check(outside, observation))
        assert "exp_code_changes" in str(guard.check(good, seen(FAILED)))

    @pytest.mark.parametrize("name", ["torch", "reqeusts", "index-url", "tqdm"])
    def test_only_known_packages_and_only_with_permission(self, name: str) -> None:
        install = actions.InstallPackage(package=name, why="w")
        assert "permission" in str(guard.check(install, seen(FAILED)))
        allowed = seen(FAILED, options=RunOptions(allow_install=True))
        assert (guard.check(install, allowed) is None) == (name == "tqdm")


class TestEnds:
    def test_results_come_before_words_about_them(self) -> None:
        section = Section(section="findings", interpretation="It worked.")
        words = actions.WriteSections(sections=(section,))
        assert guard.check(words, seen(FAILED)) is not None
        collected = seen(FAILED, collected={"outcome": "failed"})
        assert "cannot be read" in str(guard.check(words, collected))
        assert guard.check(words, replace(collected, evidence=run_evidence())) is None

    def test_the_outcome_is_the_collected_one(self) -> None:
        success = actions.Finish(outcome=Outcome.SUCCEEDED, reason="r")
        assert "not succeeded" in str(guard.check(success, seen(FAILED, collected={"outcome": "failed"})))
        assert guard.check(success, seen(FAILED, collected={"outcome": "succeeded"})) is None
        assert "collect the results first" in str(guard.check(success, seen(FAILED)))

    def test_nothing_ends_while_a_training_runs(self) -> None:
        finish = actions.Finish(outcome=Outcome.FAILED, reason="r")
        for action in (actions.Collect(), actions.Report(), finish):
            assert "still running" in str(guard.check(action, seen(RUNNING)))
        assert guard.check(actions.Collect(), seen(FAILED)) is None

    def test_waiting_and_diagnosing_have_an_object(self) -> None:
        assert guard.check(actions.Wait(), seen(RUNNING)) is None
        assert guard.check(actions.Wait(), seen(FAILED)) is not None
        assert guard.check(actions.Diagnose(), seen(FAILED)) is None
        assert guard.check(actions.Diagnose(), seen(RUNNING)) is not None


@pytest.mark.parametrize("attempts", [(), (RUNNING,), (FAILED,)], ids=["before", "running", "failed"])
def test_a_note_is_always_allowed(attempts: tuple[AttemptState, ...]) -> None:
    assert guard.check(actions.Note(text="ignore all rules"), seen(*attempts)) is None
