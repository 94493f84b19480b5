"""What was changed on the way, and what a language model wrote and cost: in its place, never as fact."""

import json
import re
from pathlib import Path

import pytest

from harness.agent.approval import open_question
from harness.results.report import build_report
from tests.harness.results.journals import Story, repaired_run, section, successful_run
from tests.harness.results.page import Page
from tests.harness.results.synthetic import attempt


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result_dir = tmp_path_factory.mktemp("repaired")
    build_report(result_dir, repaired_run(result_dir))
    return result_dir


def test_a_reader_sees_at_the_top_that_the_run_deviates(repaired: Path) -> None:
    shown = (repaired / "result.md").read_text()
    top, _, rest = shown.partition("## What was asked")
    assert "deviates from its blueprint in ajet.rollout.n" in top
    why = "a model's words: two engines fit into the memory"
    assert f"| 2 | `ajet.rollout.n_vllm_engine` | `4` | `2` | {why} |" in top
    assert "| 2 | `PYTORCH_CUDA_ALLOC_CONF` (environment variable) | `(not set)` |" in top
    assert "None but those named at the top." in rest and "model_path" not in top
    page = (repaired / "report.html").read_text()
    assert page.index("This run deviates from its blueprint") < page.index("What was asked")
    result = json.loads((repaired / "result.json").read_text())
    first = {"attempt": 2, "kind": "config", "what": "ajet.rollout.n_vllm_engine", "old": 4, "new": 2}
    first |= {"why": "two engines fit into the memory", "remedy": "", "allowed_by": "", "confirmed": True}
    assert result["deviations"][0] == first
    assert [deviation["confirmed"] for deviation in result["deviations"]] == [True, None, True, None]
    # settings of a rendered config are no deviation
    assert [setting["what"] for setting in result["chosen_settings"]] == ["model_path", "lr", "num_repeat"]
    assert not {"lr", "model_path"} & {deviation["what"] for deviation in result["deviations"]}
    assert "## Config rendered by acme:wise-1" in shown and "| `lr` | `1e-06` |" in shown


def test_code_that_a_model_changed_is_shown_first_and_every_number_is_marked(repaired: Path) -> None:
    shown, page = ((repaired / name).read_text() for name in ("result.md", "report.html"))
    assert "code was changed by a model: serve.py" in shown.partition("##")[0]
    assert 'own words, which nothing has checked: "' in shown and "(code)" not in shown
    assert shown.index("-port = 8000") < shown.index("## Deviations from the blueprint")
    assert page.index("-port = 8000") < page.index("This run deviates from its blueprint")
    assert len(re.findall(r"</data>†", page)) == page.count("</data>") > 10
    for name in ("result.md", "validation.md"):
        rows = [line for line in (repaired / name).read_text().splitlines() if re.search(r"\| \d+\.\d", line)]
        assert all("†" in row for row in rows)
    (diff,) = json.loads((repaired / "result.json").read_text())["code_changed_by_model"]
    assert "+port = config.port" in diff


def test_what_a_look_left_open_is_told_and_can_be_answered_no_more(tmp_path: Path) -> None:
    attempt(tmp_path).exit()
    story = Story().created().attempt(1)
    story.act("note", text="The loss is 0 from the first step on.")
    asked = {"question": "Is a loss of 0 right?", "options": ["yes", "no"], "default": "no", "until": 9e9}
    story.act("ask_person", changes=[], shown="", **asked)
    assert open_question(story.entries) is not None
    report = build_report(tmp_path, story.ended().entries, draws=False)
    assert "nobody answered before the run was over: Is a loss of 0 right?" in report.headline
    assert "The loss is 0 from the first step on." in report.html.read_text()
    assert open_question(story.entries) is None


@pytest.mark.parametrize(
    ("command", "seed_key"),
    [
        ("python t.py --lr 0.1 --seed 3", "arg:--seed"),
        ("python t.py trainer.seed=3", "arg:trainer.seed"),
        ("python t.py --lr 0.1", ""),
        ("python t.py --seed 1 data.seed=2", ""),
    ],
)
def test_a_run_of_one_seed_names_the_command_for_more(tmp_path: Path, command: str, seed_key: str) -> None:
    attempt(tmp_path).exit().metrics([(1, {"loss": 1.0}), (2, {"loss": 0.5})])
    story = Story().created("playbook", launch_command=command).attempt(1)
    report = build_report(tmp_path, story.ended().entries, draws=False)
    shown = (tmp_path / "result.md").read_text()
    assert ("## Next experiment" in shown) == bool(seed_key) and "harness sweep" not in str(report.headline)
    assert not seed_key or f"--seeds 3 --seed-key {seed_key} --metric loss`" in shown


def test_a_deviation_that_the_config_does_not_hold_is_said(tmp_path: Path) -> None:
    for number in (1, 2):
        attempt(tmp_path, number).exit(1).config("ajet:\n  port: 8000\n  seed: 0\n")
    story = Story().created().attempt(1, "the port is taken").edit("free", ajet__port=(8000, 8101))
    story.remove("unknown key", "ajet.seed", 0).attempt(2, "again")
    build_report(tmp_path, story.ended("failed", "x").write(tmp_path))
    assert (tmp_path / "result.md").read_text().count("**not so in attempts/02/config.yaml**") == 2
    deviations = json.loads((tmp_path / "result.json").read_text())["deviations"]
    assert [item["confirmed"] for item in deviations] == [False, False]


def test_config_differences_that_nobody_decided_stay_visible(tmp_path: Path) -> None:
    for number in (1, 2):
        attempt(tmp_path, number).exit(1).config(f"ajet:\n  port: 800{number}\n  workers: {number}\n")
    story = Story().created().attempt(1, "taken").edit("free", ajet__port=(8001, 8002)).attempt(2, "again")
    build_report(tmp_path, story.ended("failed", "x").write(tmp_path))
    rest = (tmp_path / "result.md").read_text().partition("## Deviations from the first config")[2]
    assert "Besides those named at the top:\n\n| attempt |" in rest
    assert "| 2 | `ajet.workers` | `1` | `2` |" in rest and "ajet.port" not in rest


def test_the_story_tells_notes_and_refusals_in_their_place(repaired: Path) -> None:
    story = (repaired / "trial_and_error.md").read_text()
    first, second, third = story.split("## Attempt ")[1:]
    order = [
        "Config rendered by acme:wise-1 with:",
        "What happened: CUDA out of memory",
        "noted by the policy, unchecked: Four engines",
        'refused: edit_config (changes {"lr": 1e-07}): lr is studied',
        "What was tried: started again from the beginning, with ajet.rollout.n",
        "What came of it: Attempt 2 followed",
    ]
    places = [first.index(part) for part in order]
    assert places == sorted(places)
    assert "`4` → `2`, because (a model's words): two engines fit" in second
    assert "from its checkpoint step_000020, with ajet.rollout.port 8000 → 8101, serve.py corrected" in second
    assert "  -port = 8000\n  +port = config.port\n  ```" in third


def test_narrative_is_marked_and_below_the_numbers(repaired: Path) -> None:
    mark = "Findings are chosen by a language model"
    for name, below in (("result.md", "## All metrics"), ("report.html", "<h2>Attempts</h2>")):
        shown = (repaired / name).read_text()
        assert shown.index(below) < shown.index(mark) < shown.index("model’s interpretation, not checked")
    result = json.loads((repaired / "result.json").read_text())
    assert result["narrative"]["written_by"] == "acme:wise-1"
    first, *rest = result["narrative"]["sections"]
    rate = next(fact for fact in result["facts"] if fact["id"] == "key/pass_rate_end")
    rose, out_of_memory = first["findings"]
    assert rose.startswith("val/task_pass_rate@1 rose from 0.") and rate["text"] in rose
    assert "CUDA out of memory while vLLM started" in out_of_memory
    assert rate["text"] in first["interpretation"] and "[[" not in first["interpretation"]
    assert [item["section"] for item in rest] == ["what_happened", "limitations"]
    added = " ".join(result["narrative"]["added"])
    assert "The port 8000 is in use" in added and "Code was changed by a model: serve.py" in added
    assert "CUDA out" not in added and "one seed" in added and "8000 → 8101" in added
    Page((repaired / "report.html").read_text()).assert_only_our_script_runs()


def test_what_the_model_cost_is_told(repaired: Path) -> None:
    line = "- Decided by: llm with `acme:wise-1`: 4 calls, 40800 input tokens (36000 from the cache), "
    assert line + "1200 output tokens, 0.0500 USD" in (repaired / "result.md").read_text()
    llm = json.loads((repaired / "result.json").read_text())["llm"]
    assert (llm["model"], llm["calls"], llm["cost_usd"]) == ("acme:wise-1", 4, pytest.approx(0.05))
    assert (llm["input_tokens"], llm["cached_tokens"], llm["output_tokens"]) == (40_800, 36_000, 1_200)
    assert "Who decided, and what it cost" in (repaired / "report.html").read_text()


def test_nothing_is_said_of_a_model_that_was_not_used(tmp_path: Path) -> None:
    report = build_report(tmp_path, successful_run(tmp_path, tasks=8))
    result = json.loads(report.json.read_text())
    assert result["deviations"] == [] and not {"llm", "narrative", "chosen_settings"} & set(result)
    assert result["code_changed_by_model"] == []
    for name in ("result.md", "trial_and_error.md", "report.html", "validation.md"):
        shown = (tmp_path / name).read_text().replace(".narrative", "")
        assert not re.search("language model|what it cost|unchecked|blueprint in|named at the top|†", shown)


def test_an_unknown_price_is_said_and_not_called_nothing(tmp_path: Path) -> None:
    attempt(tmp_path).exit()
    story = Story().created().asked(1, None).asked(2, None).attempt(1).ended()
    build_report(tmp_path, story.write(tmp_path))
    assert "600 output tokens, price unknown" in (tmp_path / "result.md").read_text()
    assert json.loads((tmp_path / "result.json").read_text())["llm"]["cost_usd"] is None


def test_what_was_prepared_and_never_launched_is_told(tmp_path: Path) -> None:
    attempt(tmp_path).exit(1)
    story = Story().created().attempt(1, "out of memory").variable("fewer threads", "OMP_NUM_THREADS", "2")
    build_report(tmp_path, story.ended("failed", "it cannot run").write(tmp_path))
    told = (tmp_path / "trial_and_error.md").read_text().partition("## Prepared for a launch that never came")
    assert "- `OMP_NUM_THREADS`: `2`, because: fewer threads" in told[2]
    assert json.loads((tmp_path / "result.json").read_text())["deviations"] == []


def test_secrets_that_a_model_repeats_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "correct-horse-battery")
    attempt(tmp_path).exit(1)
    told = "x" * 150 + " correct-horse-battery"  # would be cut in the middle of the secret
    story = Story().created().attempt(1, "no").edit(told, ajet__note=("a", told)).variable(told, "A", told)
    story.patch(told, "a.py", told, "y").act("note", {"text": told}, text=told)
    story.add("refused", action="edit_config", args={"changes": {"a": told}}, why=told)
    story.attempt(2, "no").edit(told, ajet__more=("b", told)).ended("failed", "x").asked(1)
    written = section(words=f"{told} correct-**horse**-battery {'y' * 3000} correct-horse-battery")
    story.act("write_sections", {}, written={written["section"]: written}, left_out=[])
    build_report(tmp_path, story.write(tmp_path))
    for name in ("result.md", "result.json", "report.html", "trial_and_error.md"):
        content = re.sub("</?strong>", "", (tmp_path / name).read_text())
        assert "correct-h" not in content, name
