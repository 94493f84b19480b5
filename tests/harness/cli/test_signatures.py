"""A signature of one's own, from a log to what it would change: `diagnose --propose`, `signatures test`."""

import json
from pathlib import Path

import pytest

from harness import index
from harness.diagnosis import trial
from harness.diagnosis.signatures import load, read_file
from harness.lessons import proposals
from tests.harness.agent.world import World, launch, new_experiment
from tests.harness.cli.typed import typed

LOG = """step 1
Traceback (most recent call last):
  File "/exp/t.py", line 9, in <module>
FrobError: part 17 of '/x' broke
"""
WIDE = """
- {id: too_wide, family: gpu_oom, name: a, cause: b, when: [{exception: Error, message: 'out of memory'}]}
- {id: blind, family: auth, name: a, cause: b, when: [{message: 'no such words'}], example: other words}
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_every_example_is_of_a_signature_that_holds_for_it() -> None:
    texts = trial.examples()
    known = [each for each in load(()).signatures if each.id in texts]
    caught = {each.where: each.ids for each in trial.of_texts(known, texts)}
    assert len(texts) > 200 and not [where for where in texts if where not in caught.get(where, ())]


def test_a_skeleton_for_an_unknown_failure_is_a_file_that_catches_its_like(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(LOG)
    status, out, err = typed("diagnose", log, "--propose")
    (file,) = proposals.proposed()
    assert status == 1 and out.startswith("unknown") and str(file) in err
    (signature,) = read_file(file)
    assert signature.example == "FrobError: part 17 of '/x' broke"
    status, out, _ = typed("signatures", "test", file, columns=200)
    assert status == 0 and f"{signature.id}: {signature.id}, was unknown" in out
    log.write_text(LOG.replace("17", "3"))
    assert [each.after for each in trial.of_logs([signature], [("", log)])] == [signature.id]
    assert typed("diagnose", log, "--propose")[0] == 2


def test_what_a_signature_takes_away_is_named_in_examples_and_in_past_runs(tmp_path: Path) -> None:
    run = new_experiment(tmp_path / "run", World([]))
    launch(run, reason="exited", status=1)
    files = run.attempt_files(1)
    files.dir.mkdir(parents=True)
    files.pane_log.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB.\n")
    (files.dir / "exit.json").write_text("{}")
    run.close()
    index.add(index.IndexedRun("7f3a00000000", "sort digits", str(tmp_path / "run"), 1.0))
    mine = tmp_path / "mine.yaml"
    mine.write_text(WIDE)
    status, out, _ = typed("signatures", "test", mine, "--json")
    told = json.loads(out)
    assert status == 1 and told["missed"] == ["blind"]
    (past,) = told["runs"]
    assert past["taken"] and "attempt 1 of sort digits" in past["where"]
    assert (past["before"], past["after"]) == ("gpu_oom", "too_wide")
    assert any(each["taken"] and each["before"].startswith("gpu_oom") for each in told["examples"])
    _, out, _ = typed("signatures", "test", mine, columns=200)
    assert "taken from gpu_oom by too_wide" in out
    mine.write_text("- id: a\n")
    assert typed("signatures", "test", mine)[0] == 2
