"""The documents: right numbers, everything escaped, the same when built again, whatever the folder holds."""

import json
import math
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from harness import journal
from harness.attempt import Evidence, Remedy
from harness.journal import Entry
from harness.outcome import Outcome
from harness.results.report import build_report
from harness.results.types import Report
from harness.wording import number_text
from tests.harness.results.journals import Story, ended, foreign_run, retried_run, successful_run
from tests.harness.results.page import Page
from tests.harness.results.synthetic import attempt


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    result_dir = tmp_path_factory.mktemp("good")
    return result_dir, build_report(result_dir, successful_run(result_dir))


def rates(result_dir: Path, step: int) -> np.ndarray:
    lines = (result_dir / "attempts/01/trainer/validation.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["step"] == step]
    return np.array([row["successes"] for row in rows], dtype=float)


def test_headline_numbers_are_those_of_the_raw_files(good: tuple[Path, Report]) -> None:
    result_dir, report = good
    start, end = rates(result_dir, 0), rates(result_dir, 120)
    facts = report.facts
    assert facts["key/pass_rate_start"].value == pytest.approx(start.mean())
    assert facts["key/pass_rate_end"].value == pytest.approx(end.mean())
    difference = end.mean(axis=1) - start.mean(axis=1)
    half = 1.969311 * difference.std(ddof=1) / 16  # t quantile for 255 degrees of freedom, 256 tasks
    change = facts["key/pass_rate_change"]
    assert change.value == pytest.approx(difference.mean())
    assert change.interval is not None
    assert change.interval.low == pytest.approx(difference.mean() - half, abs=1e-6)
    assert facts["val/120/task_pass_rate@2"].value == pytest.approx(end[:, :2].any(axis=1).mean())
    assert facts["val/120/num_all_success_tasks"].value == end.all(axis=1).sum()
    rows = [json.loads(line) for line in (result_dir / "attempts/01/trainer/metrics.jsonl").open()]
    assert facts["key/reward_last"].value == rows[-1]["critic/rewards/mean"]
    assert facts["key/wall_time"].value == pytest.approx(124.4)
    first, last = (facts[f"key/pass_rate_{end}"].interval.text for end in ("start", "end"))
    assert report.headline[1] == f"pass rate {start.mean():.3f} {first} → {end.mean():.3f} {last} (step 120)"
    assert "one seed" in report.headline[2]
    missing = "provenance.json: code version, packages and hardware were not recorded"
    assert (report.discrepancies, report.missing) == ((), (missing,))


def test_every_number_on_the_page_is_a_fact_with_a_source(good: tuple[Path, Report]) -> None:
    result_dir, report = good
    page = Page(report.html.read_text())
    stored = {fact["id"]: fact for fact in json.loads(report.json.read_text())["facts"]}
    assert len(page.numbers) > 60
    for name, text in page.numbers.items():
        assert text == stored[name]["text"]
        assert all((result_dir / source["file"]).exists() for source in stored[name]["sources"])
    shown = (result_dir / "validation.md").read_text()
    header, _, *rows = [line.split("|")[1:-1] for line in shown.splitlines() if line.startswith("|")]
    last = dict(zip([name.strip() for name in header], [cell.strip() for cell in rows[-1]], strict=True))
    rate = stored["val/120/task_pass_rate@1"]
    assert (last["step"], last["attempt"], last["task_pass_rate@1"]) == ("120", "1", rate["text"])
    assert last["95 % interval of task_pass_rate@1"].startswith("[")
    first = "step pass_n total_tasks num_all_success_tasks num_pass_n_tasks task_pass_rate@1"
    assert list(last)[:6] == first.split()


def test_page_asks_the_network_for_nothing_and_runs_one_script(good: tuple[Path, Report]) -> None:
    html = good[1].html.read_text()
    Page(html).assert_only_our_script_runs()
    assert not re.search(r"url\((?!#)|@import", html)
    assert "prefers-color-scheme: dark" in html


def test_a_page_can_be_walked_without_eyes_and_without_a_script(good: tuple[Path, Report]) -> None:
    result_dir, report = good
    elements = Page(report.html.read_text()).elements
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [str(attributes["href"]) for tag, attributes in elements if tag == "a"]
    assert "#validation" in links and {link[1:] for link in links if link.startswith("#")} <= set(ids)
    levels = [int(tag[1]) for tag, _ in elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and all(after - before <= 1 for before, after in pairwise(levels))
    assert all(attributes.get("scope") for tag, attributes in elements if tag == "th")
    pictures = [attributes for tag, attributes in elements if tag == "img"]
    drawn = {attributes["data-chart"] for _, attributes in elements if "data-chart" in attributes}
    assert {str(picture["src"]) for picture in pictures} == {f"figures/{name}.svg" for name in drawn}
    assert all(picture["alt"] and (result_dir / str(picture["src"])).is_file() for picture in pictures)


@pytest.mark.usefixtures("drawn_anew")
def test_built_again_it_is_the_same_to_the_byte(good: tuple[Path, Report]) -> None:
    result_dir, _ = good
    before = {path: path.read_bytes() for path in result_dir.rglob("*") if path.is_file()}
    (result_dir / "figures/stale.svg").write_text("an older report's figure")
    build_report(result_dir, journal.read(result_dir / "journal.jsonl"))
    after = {path: path.read_bytes() for path in result_dir.rglob("*") if path.is_file()}
    assert {path.name for path in before if before[path] != after.get(path)} == set()
    assert set(after) == set(before)


def test_failed_run_says_what_failed_and_what_was_tried(tmp_path: Path) -> None:
    report = build_report(tmp_path, retried_run(tmp_path))
    story = (tmp_path / "trial_and_error.md").read_text()
    assert "`attempts/01/pane.log:83`: `ConnectionResetError: [Errno 104] peer`\n" in story
    assert "not found there" not in story
    assert "What was tried: started again" in story
    assert "Attempt 2 followed; it ended: exited, status 1" in story
    assert "`ajet.rollout.timeout`: `30` → `60`" in story
    assert "attempts/02/trainer" not in story
    html = report.html.read_text()
    assert 'class="verdict bad"' in html and "ajet.rollout.timeout" in html
    assert not report.discrepancies


@pytest.mark.parametrize("outcome", [one.value for one in Outcome])
@pytest.mark.parametrize("reason", ["signalled", "deadline", "stopped", "prepare_failed", "could_not_start"])
def test_how_a_run_ended_is_told_in_words(tmp_path: Path, outcome: str, reason: str) -> None:
    attempt(tmp_path).exit(1, reason)
    story = Story().created().attempt(1, "No memory.")
    story.act("wait", reason="exited", detail="", ended={"reason": reason, "status": 1}).ended(outcome, "so")
    report = build_report(tmp_path, story.entries, draws=False)
    lines = [*report.headline, *(tmp_path / "trial_and_error.md").read_text().splitlines()]
    lines += re.findall(r"^\| 1 \|.*?\|", (tmp_path / "result.md").read_text(), re.MULTILINE)
    assert [line for line in lines if re.search("[a-z]\\\\?_[a-z]", line)] == [
        "# What was tried: sort_digits"
    ]


def test_a_failed_run_leads_with_cause_evidence_and_what_to_do(tmp_path: Path) -> None:
    attempt(tmp_path).exit(1).pane("loading\nModuleNotFoundError: No module named 'einops'\n")
    evidence = [Evidence("pane.log", 2, "ModuleNotFoundError: No module named 'einops'")]
    remedy = Remedy(
        "advise", "advice", "Install it.", "it is missing", by_hand="python -m pip install einops"
    )
    found = {"evidence": evidence, "what_to_do": [remedy]}
    story = (
        Story().created().attempt(1, "A package is missing: einops.", **found).ended("failed", "no repair")
    )
    page = build_report(tmp_path, story.entries).html.read_text()
    order = [">Failed<", "A package is missing: einops.", "No module named &#39;einops&#39;"]
    order += ["<pre>python -m pip install einops</pre>", ">What was asked<", ">Attempts<"]
    places = [page.index(part) for part in order]
    assert places == sorted(places)


@pytest.mark.parametrize("origin", ["console", "trainer"])
def test_a_log_that_was_not_written_whole_is_said_and_what_needs_its_end_withheld(
    tmp_path: Path, origin: str
) -> None:
    made = attempt(tmp_path).exit(log_lost_bytes=600_000, log_lost_why="file size limit").pane("")
    made.metrics([(at, {"reward": at / 40, "speed": 9.0 - at}) for at in range(1, 11)], origin)
    lost = "600000 bytes of its log were lost, as files may not be larger here"
    entries = Story().created().attempt(1).ended(reason=f"attempt 1 ran to its end; {lost}").entries
    report = build_report(tmp_path, entries)
    assert report.headline[0] == f"Succeeded: attempt 1 ran to its end; {lost}"
    (said,) = (line for line in report.missing if lost in line)
    shown = report.html.read_text() + (tmp_path / "result.md").read_text()
    assert said.startswith("attempts/01/pane.log: ") and shown.count(lost) == 4
    unknown = {name for name, fact in report.facts.items() if fact.withheld}
    if origin == "trainer":
        assert unknown == set() and report.result["value"] == 0.25 and "withheld" not in said
        return
    assert report.headline[1].startswith("reward 0.025 → withheld (a part of the log is lost")
    assert unknown > {"key/result_end", "key/steps", "metric/speed/lowest", "attempt/1/rows"}
    assert "metric/reward/first" not in unknown and "key/result_start" not in unknown
    assert report.result["value"] is None and report.result["best"] is None
    assert "0.25 " not in (tmp_path / "result.md").read_text() and report.discrepancies == ()


TRACE = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    save()\n{}\n'


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (TRACE.format("OSError: no room"), "an error was printed: OSError: no room (attempts/01/pane.log:4)"),
        (TRACE.format("ValueError: a") + "go on\n" * 9 + TRACE.format("TypeError: b"),
         "2 errors were printed, the first: ValueError: a (attempts/01/pane.log:4)"),
        ("0 errors, 0 warnings\nERROR: retrying in 2 s\n", ""),
    ],
)  # fmt: skip
def test_a_traceback_before_a_good_end_is_told(tmp_path: Path, log: str, told: str) -> None:
    attempt(tmp_path).exit().pane(log)
    story = Story().created().attempt(1)
    seen = {"attempt": 1, "event": "error_line", "at": 1.0, "text": log.splitlines()[0]}
    report = build_report(tmp_path, story.add("event", **seen).ended().entries)
    assert [line for line in report.headline if "printed" in line] == ([told] if told else [])
    assert (told in (tmp_path / "result.md").read_text().replace("\\", "")) and report.headline[0].startswith(
        "Succ"
    )
    assert ("ended well and printed" in report.html.read_text()) == bool(told)
    quiet = build_report(tmp_path, Story().created().attempt(1).ended().entries)
    assert not any("printed" in line for line in quiet.headline)


INF, NAN, MOST = float("inf"), float("nan"), 1.7976931348623157e308


@pytest.mark.parametrize(
    ("values", "is_drawn", "first"),
    [
        ([1e308, -1e308], False, 1),
        ([0.1, 0.2, -1e308], False, 1),
        ([MOST, 5e-324, -MOST], False, 1),
        ([1e308], None, 1),
        ([INF, -INF, 1.0], True, 1),
        ([NAN, NAN], None, 1),
        ([1e-320, 5e-324, 0.0], True, 1),
        ([-5.0, -1e-300, -1e300], True, 1),
        ([1.0, 1.0000000000000002], True, 1),
        ([1.0, 2.0], True, -(10**9)),
        ([1.0, 2.0], True, 10**17),
        ([1.0, 2.0], True, 10**400),
    ],
    ids=lambda value: str(value)[:20],
)
def test_no_number_loses_the_report(
    tmp_path: Path, values: list[float], is_drawn: bool | None, first: int
) -> None:
    """`is_drawn`: None where there is nothing to draw, or nothing that is expected."""
    rows = [
        (first + at, {"reward": value, "val/acc": value, "loss": value}) for at, value in enumerate(values)
    ]
    attempt(tmp_path).exit().metrics(rows)
    entries = Story().created().attempt(1).ended().write(tmp_path)
    report = build_report(tmp_path, entries)
    told = json.loads(report.json.read_text(), parse_constant=pytest.fail)
    names = {figure["title"] for figure in told["figures"]}
    left_out = {
        line.partition(" could not be drawn: ")[0] for line in told["missing"] if "could not be" in line
    }
    if is_drawn is not None:
        wanted = {"val/acc", "Training reward", "loss"}
        assert (names, left_out) == ((wanted, set()) if is_drawn else (set(), wanted))
    assert all(line in (tmp_path / "result.md").read_text() for line in left_out)
    assert told["result"]["text"] == number_text(values[-1]) and report.discrepancies == ()
    (tmp_path / "again").mkdir()
    build_report(tmp_path, entries, tmp_path / "again")
    again = json.loads((tmp_path / "again/result.json").read_text())
    assert again["missing"] == told["missing"] and again["figures"] == told["figures"]


def test_d24_backticks_of_the_plan_are_code_on_the_page(tmp_path: Path) -> None:
    attempt(tmp_path).exit()
    entries = Story().created("playbook", purpose="Is `a<b` true? A ` alone").attempt(1).ended().entries
    assert "Is `a&lt;b` true? A ` alone" in build_report(tmp_path, entries).html.read_text()
    entries = Story().created("playbook", purpose="Is `a<b` true?").attempt(1).ended().entries
    assert "Is <code>a&lt;b</code> true?" in build_report(tmp_path, entries).html.read_text()


def test_invented_evidence_is_marked_and_what_an_attempt_did_not_leave_is_said(tmp_path: Path) -> None:
    attempt(tmp_path).pane("all is well\n")
    evidence = [Evidence("pane.log", 1, "CUDA out of memory")]
    story = Story().created().attempt(1, "x", evidence=evidence).ended("failed")
    report = build_report(tmp_path, story.entries)
    assert "`CUDA out of memory` (not found there)" in (tmp_path / "trial_and_error.md").read_text()
    assert "attempts/01/exit.json: how attempt 1 ended was not recorded" in report.missing
    assert "no metrics: no attempt wrote a metric row" in report.missing


def test_foreign_command_gets_figures_and_says_what_is_missing(tmp_path: Path) -> None:
    report = build_report(tmp_path, foreign_run(tmp_path))
    drawn = {path.stem for path in (tmp_path / "figures").glob("*.svg")}
    assert drawn == {"metric_01_val_accuracy", "metric_02_loss", "metric_03_lr"}
    assert report.missing == ("provenance.json: code version, packages and hardware were not recorded",)
    assert report.facts["key/loss/last"].value < report.facts["key/loss/first"].value
    (row,) = [
        line for line in (tmp_path / "result.md").read_text().splitlines() if line.startswith("| 195 |")
    ]
    assert report.facts["val/195/val_accuracy"].text in row
    assert report.headline[1].startswith("val_accuracy 0 → 0.9612 (step 195)")


def test_a_best_validation_that_is_not_the_last_is_shown_as_picked(tmp_path: Path) -> None:
    made = attempt(tmp_path).exit()
    made.validations({step: {"a": [step == 5], "b": [True]} for step in (0, 5, 9)})
    report = build_report(tmp_path, ended())
    best = report.facts["key/pass_rate_best"]
    assert (best.value, best.label) == (1.0, "highest task pass rate of 3 validations (step 5)")
    assert "picked afterwards" in report.html.read_text()
    assert report.facts["key/pass_rate_end"].value == 0.5


def test_nothing_at_all_is_still_a_report(tmp_path: Path) -> None:
    report = build_report(tmp_path, Story().created().ended("cannot_run", "tmux is missing").entries)
    assert report.headline == ("Could not run: tmux is missing", "0 attempts")
    assert report.missing[0].startswith("no attempt was launched")
    assert "No attempt was launched: tmux is missing" in (tmp_path / "trial_and_error.md").read_text()
    Page(report.html.read_text())
    assert not report.discrepancies


def test_numbers_that_are_none_are_said_and_kept_out_of_the_json(tmp_path: Path) -> None:
    rows = ({"loss": 1.0, "dead": math.nan}, {"loss": math.nan, "dead": math.inf}, {"loss": 0.5})
    attempt(tmp_path).exit().metrics(list(enumerate(rows, start=1)))
    report = build_report(tmp_path, ended())
    assert "loss is NaN at step 2 (attempts/01/metrics.jsonl:2)" in report.missing
    assert report.facts["metric/loss/lowest"].value == 0.5
    stored = json.loads(report.json.read_text(), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert {fact["text"] for fact in stored["facts"] if fact["value"] is None} == {"NaN", "∞"}
    assert not report.discrepancies


def test_long_run_is_drawn_small_and_kept_whole(tmp_path: Path) -> None:
    attempt(tmp_path).exit().metrics([(step, {"loss": math.sin(step / 900)}) for step in range(20_000)])
    report = build_report(tmp_path, ended())
    assert report.html.stat().st_size < 200_000
    data = json.loads((tmp_path / "figures/metric_01_loss.json").read_text())
    assert len(data["panels"][0]["lines"][0]["y"]) == 20_000
    assert report.facts["metric/loss/highest"].value == pytest.approx(1.0, abs=1e-5)


def test_secrets_do_not_reach_any_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "correct-horse-battery")
    made = attempt(tmp_path).exit(1).config("judge:\n  api_key: abcdef123456\n")
    made.pane("ValueError: key sk-abcdefghijklmnop1234 and correct-horse-battery\n")
    evidence = [Evidence("pane.log", 1, "key sk-abcdefghijklmnop1234 and correct-horse-battery")]
    story = Story().created(purpose="password: hunter2hunter2")
    build_report(tmp_path, story.attempt(1, "TOKEN=abcdef123456", evidence=evidence).ended("failed").entries)
    for path in (path for path in tmp_path.iterdir() if path.is_file()):
        for secret in ("abcdef123456", "sk-abcdef", "correct-horse", "hunter2"):
            assert secret not in path.read_text(), path.name


HOSTILE = (
    "<script>alert(1)</script>",
    "</style></title><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "{{ 7 * 7 }}{% raw %}",
    "| a | b |\n|---|---|\n```\n# heading",
    "\x1b[31mred\x1b[0m \x00\u202e \ud800",
    "$x_1^2$ \\frac",
    "]]>--><!--",
    "</script><script>alert(1)</script>\u2028\u2029",
    "<!--<script>",
)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(word=st.text(max_size=60) | st.sampled_from(HOSTILE))
@example(word="</pre></details><svg onload=alert(1)>\x07")
@example(word="\ud800|`x`|<b>")
@example(word="\n")
def test_hostile_text_adds_no_element(word: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert elements_with(word, tmp_path_factory.mktemp("hostile")) == elements_with_plain_words()


@cache
def elements_with_plain_words() -> list[object]:
    with TemporaryDirectory() as folder:
        return elements_with("plain", Path(folder))


def elements_with(word: str, result_dir: Path) -> list[object]:
    """Elements and attribute names of the page and blocks of the Markdown documents of a report with `word`
    in every place that outsiders can write to."""
    rows = [(step, {f"m{word}": 1.0 / step, "loss": 0.5}) for step in (1, 2)]
    made = attempt(result_dir).exit(1).metrics(rows).config(f"a: {json.dumps(word)}\n")
    made.pane("line\n")
    made.validations({0: {word or "t": [True, False]}})
    other = attempt(result_dir, 2).exit(1).config(f"a: {json.dumps(word + 'x')}\n")
    other.pane("line\n")
    report = build_report(result_dir, journal_of(f"x {word} x"))
    page = Page(report.html.read_text(encoding="utf-8"))
    page.assert_only_our_script_runs()
    lines = (result_dir / "validation.md").read_text(encoding="utf-8").splitlines()
    table = [line.replace("\\|", "") for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1 and len(table) == 3
    assert not any("\x1b" in line or "\x07" in line for line in report.headline)
    texts = [(result_dir / name).read_text(encoding="utf-8") for name in ("result.md", "trial_and_error.md")]
    blocks = [token.type for text in texts for token in MarkdownIt("commonmark").enable("table").parse(text)]
    elements = [(tag, frozenset(names)) for tag, names in page.elements if tag != "code"]  # of backticks
    return [*elements, *blocks]


def journal_of(words: str) -> list[Entry]:
    """A journal that holds these words wherever somebody can write."""
    lines = [Evidence("pane.log", 1, words)]
    story = Story().created(called=words, purpose=words, path=words)
    for number in (1, 2):
        story.act("note", {}, text=words).render(words, **{words: words}).edit(words, **{words: (words, "y")})
        story.remove(words, words, words).variable(words, words, words)
        story.patch(words, words, words, f"{words}y")
        story.add("consult", topic=words, why=words).asked(number, model=words)
        story.add("consulted", topic=words, why=words).add("stop_asked", by=words)
        story.attempt(number, words, words, words, family=words, evidence=lines, last_lines=lines)
    return story.variable(words, words, "y").ended("failed", words).entries


def test_a_rise_on_every_task_is_told(tmp_path: Path) -> None:
    never, always = ({f"t{number}": [value] * 2 for number in range(40)} for value in (False, True))
    attempt(tmp_path).metrics([(1, {"loss": 1.0})]).validations({0: never, 1: always}).exit()
    build_report(tmp_path, ended())
    assert "The task pass rate rose" in (tmp_path / "result.md").read_text()


def test_the_validations_show_the_result_first_and_the_counts_last(good: tuple[Path, Report]) -> None:
    table = good[1].html.read_text().partition('id="validation"')[2].partition("</thead>")[0]
    names = [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<th[^>]*>(.*?)</th>", table)]
    assert names[:2] == ["step", "task_pass_rate@1"] and names[-1] == "attempt"
    assert names[-5:-1] == ["pass_n", "total_tasks", "num_all_success_tasks", "num_pass_n_tasks"]
