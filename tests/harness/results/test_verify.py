"""A finished run is held to its raw files: whatever is changed, taken away or added is found, and named."""

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import journal
from harness.atomic_write import write_json
from harness.journal import Event
from harness.journal.events import Held, Owner, StopAsked
from harness.redaction import NO_SECRETS
from harness.results.content import is_same_text, line_difference, tree_differences
from harness.results.manifest import sha256, vouched_for, with_checksum
from harness.results.report import build_report
from harness.results.verify import NotFinishedError, run_flag, verify_run
from harness.state import fold
from tests.harness.results.finished import finished_run
from tests.harness.results.journals import section


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    change = {"kind": "change", "metric": "val/task_pass_rate@1"}
    words = section(change, words="It ends at [[key/pass_rate_end]].")
    result_dir = finished_run(tmp_path_factory.mktemp("built") / "sort", findings=words)
    assert verify_run(result_dir).discrepancies == ()
    return result_dir


@pytest.fixture
def run(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "elsewhere"))


def found(result_dir: Path) -> dict[str, str]:
    return {item.where: item.what for item in verify_run(result_dir).discrepancies}


def files_of(result_dir: Path) -> list[Path]:
    return sorted(path for path in result_dir.rglob("*") if path.is_file() and path.stat().st_size)


def forge(result_dir: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change result.json as somebody would who knows of its checksum."""
    result = json.loads((result_dir / "result.json").read_text())
    del result["checksum"]
    change(result)
    (result_dir / "result.json").write_text(with_checksum(result))


def test_a_folder_that_was_copied_still_holds(run: Path) -> None:
    checked = verify_run(run)
    assert checked.discrepancies == ()
    assert checked.files == len([path for path in run.rglob("*") if path.is_file()])
    assert checked.figures == len(list((run / "figures").glob("*.json")))
    assert checked.numbers > 100
    assert checked.summary.startswith("1 run, ") and checked.summary.endswith("checked: nothing differs")


def test_a_report_without_drawings_holds_and_one_that_lost_them_does_not(run: Path) -> None:
    entries = journal.read(run / "journal.jsonl")
    built = build_report(run, entries, draws=False)
    assert not list((run / "figures").glob("*.svg")) and '.svg"' not in built.html.read_text()
    assert verify_run(run).discrepancies == ()
    build_report(run, entries)
    for drawing in (run / "figures").glob("*.svg"):
        drawing.unlink()
    assert set(found(run).values()) == {"the file is gone"}


LATE = {
    "a stop while it is built": (-3, StopAsked("`harness stop`")),
    "a stop before the end": (-2, StopAsked("`harness stop`")),
    "a full disk before the end": (-2, Held("the disk is full")),
    "a kill before the end": (-2, Owner(1, "here")),
}


@pytest.mark.parametrize(("place", "late"), LATE.values(), ids=LATE)
def test_what_comes_after_the_report_was_begun_is_not_in_it(run: Path, place: int, late: Event) -> None:
    path = run / "journal.jsonl"
    entries = journal.read(path)
    entries.insert(place, replace(entries[place - 1], event=late))
    path.write_bytes(b"".join(replace(each, seq=n).to_line() for n, each in enumerate(entries, start=1)))
    flag = run_flag(fold(journal.read(path)), NO_SECRETS)
    write_json(run / "finish.flag", {**flag, "manifest": vouched_for(run)})
    assert flag["outcome"] == "succeeded" and verify_run(run).discrepancies == ()


@pytest.mark.parametrize("count", [30, pytest.param(3000, marks=pytest.mark.soak)])
def test_any_changed_character_is_found(run: Path, count: int) -> None:
    rng = random.Random(count)
    files = files_of(run)
    kinds = {".json", ".jsonl", ".html", ".svg", ".md", ".flag", ".yaml", ".log"}
    assert {path.suffix for path in files} == kinds
    for number in range(count):
        path = files[number % len(files)] if number < len(files) else rng.choice(files)
        before = path.read_bytes()
        position = rng.randrange(len(before))
        digits = [index for index, byte in enumerate(before) if chr(byte).isdigit()]
        if digits and rng.random() < 0.5:  # a digit for a digit is what a forger would change
            position = rng.choice(digits)
            new = rng.choice([byte for byte in b"0123456789" if byte != before[position]])
        else:
            new = (before[position] + rng.randrange(1, 256)) % 256
        path.write_bytes(before[:position] + bytes([new]) + before[position + 1 :])
        assert verify_run(run).discrepancies, f"byte {position} of {path.relative_to(run)} is now {new}"
        path.write_bytes(before)
    assert verify_run(run).discrepancies == ()


ODD = (
    *(b"null", b"[]", b'"x"', b"-1", b"1e999", b"9" * 400, b"{}", b"\xff", b"../..", b"NaN", b"true", b""),
    b"[" * 3000,
)


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.soak)])
def test_no_folder_however_damaged_makes_an_error(run: Path, count: int) -> None:
    rng = random.Random(count)
    names = ["result.json", "finish.flag", "journal.jsonl", "attempts/01/metrics.jsonl"]
    for _ in range(count):
        path = rng.choice([*(run / name for name in names), rng.choice(files_of(run))])
        before = path.read_bytes()
        start = rng.randrange(len(before))
        end = min(len(before), start + rng.choice([1, 5, 50, 5000]))
        path.write_bytes(before[:start] + rng.choice(ODD) + before[end:])
        if path.read_bytes() != before:
            assert verify_run(run).discrepancies
        path.write_bytes(before)


@pytest.mark.parametrize("value", [None, {}, -1, 10**400, 1e999, [{"path": "/etc/passwd"}]])
@pytest.mark.parametrize("key", ["facts", "manifest", "documents", "figures", "schema"])
def test_a_part_of_the_wrong_kind_is_named(run: Path, key: str, value: Any) -> None:
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, key: value}))
    assert "result.json" in found(run)


def test_a_forged_report_does_not_follow_from_the_raw_files(run: Path) -> None:
    """Numbers, words and figure data changed by somebody who makes every checksum and fingerprint anew."""
    files = dict.fromkeys(("result.md", "report.html"), ("No detectable difference", "A clear rise"))
    data = run / "figures/reward.json"
    forged = json.loads(data.read_text())
    forged["panels"][0]["lines"][0]["y"][3] = 0.99
    data.write_text(json.dumps(forged, ensure_ascii=False) + "\n")
    for name, (old, new) in files.items():
        assert old in (run / name).read_text()
        (run / name).write_text((run / name).read_text().replace(old, new))

    def change(result: dict[str, Any]) -> None:
        next(fact for fact in result["facts"] if fact["id"] == "key/pass_rate_end")["value"] = 0.99
        written = result["narrative"]["sections"][0]
        written["interpretation"] = written["interpretation"].replace("0.", "1.")
        result["narrative"]["added"] = []
        for item in result["documents"]:
            item.update(sha256=sha256(run / item["path"]), bytes=(run / item["path"]).stat().st_size)

    forge(run, change)
    named = found(run)
    assert named["result.json, facts[key/pass_rate_end].value"].startswith("it says 0.99, the raw files give")
    assert "figures/reward.json, panels[0].lines[0].y[3]" in named
    assert {where.split(", line")[0].split("[")[0] for where in named} == {
        *("result.json, facts", "result.json, narrative.sections", "result.json, narrative.added"),
        *("result.md", "report.html", "figures/reward.json, panels"),
    }


def test_a_report_of_another_version_is_said_to_be_one(run: Path) -> None:
    """Where nothing else differs: not where it is the same version, nor where a raw file has changed."""
    result, raw = json.loads((run / "result.json").read_text()), run / "attempts/01/metrics.jsonl"
    forge(run, lambda result: result.update(built_by="0.0.9 (3f2a9c1d)"))
    assert verify_run(run).outdated == verify_run(run).discrepancies == (), "it would build the same"
    forge(run, lambda result: result.pop("built_by"))
    assert verify_run(run).summary.endswith("nothing differs"), "nor would one that did not say so yet"
    for by in ("0.0.9 (3f2a9c1d)", None):
        forge(run, lambda result, by=by: result.update(built_by=by, purpose="x"))
        checked = verify_run(run)
        assert checked.discrepancies == ()
        (one,) = checked.below("p03").outdated
        assert one.where == "p03: result.json"
        assert one.what.startswith("built by " + (repr(by) if by else "nothing") + ", this is '")
        assert f": 1 of its words and numbers come out otherwise; `harness report {run}`" in one.what
        assert checked.summary.endswith("nothing differs but 1 built by another version")
    forge(run, lambda now: now.update(built_by=result["built_by"]))
    assert set(found(run)) == {"result.json, purpose"}
    forge(run, lambda now: now.pop("built_by"))
    before = raw.read_text()
    raw.write_text(before + "\n")
    assert set(found(run)) == {"result.json, purpose", "attempts/01/metrics.jsonl"}
    raw.write_text(before)
    build_report(run, journal.read(run / "journal.jsonl"))
    assert verify_run(run).summary.endswith("nothing differs")


def test_what_is_missing_and_what_is_there_too_many_is_named(run: Path) -> None:
    def without_reward(result: dict[str, Any]) -> None:
        result["documents"] = [item for item in result["documents"] if "reward" not in item["path"]]

    weights = run / "attempts/01/trainer/checkpoints/step_000012/model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    assert found(run) == {}, "checkpoints come and go"
    (run / "figures" / "reward.svg").unlink()
    (run / "attempts/01/exit.json").unlink()
    (run / "attempts/02").mkdir()
    (run / "attempts/02/metrics.jsonl").write_text('{"step": 13, "values": {"critic/rewards/mean": 1.0}}\n')
    named = found(run)
    assert named["figures/reward.svg"] == named["attempts/01/exit.json"] == "the file is gone"
    assert "nothing accounts for this file" in named["attempts/02/metrics.jsonl"]
    forge(run, without_reward)
    assert found(run)["figures/reward.svg"].startswith(("nothing accounts", "result.json has no fingerprint"))


def test_flag_and_journal_must_tell_the_same_end(run: Path) -> None:
    flag = json.loads((run / "finish.flag").read_text())
    write_json(run / "finish.flag", {**flag, "outcome": "stopped_early", "attempts": True})
    named = found(run)
    assert set(named) == {"finish.flag, outcome", "finish.flag, attempts"}
    assert named["finish.flag, outcome"] == "it says 'stopped_early', the journal gives 'succeeded'"
    path = run / "journal.jsonl"
    path.write_text(path.read_text().replace('"launch"', '"lunch!"', 1))
    what = [item.what for item in verify_run(run).discrepancies if item.where == "journal.jsonl"]
    assert any(line.startswith("line 4: ") for line in what), "a damaged entry is named by its line"
    (run / "finish.flag").unlink()
    with pytest.raises(NotFinishedError, match="harness resume"):
        verify_run(run)


@pytest.mark.parametrize("target", ["/dev/zero", "../../outside.jsonl", "trainer/metrics.jsonl"])
def test_links_are_not_followed(run: Path, built: Path, target: str) -> None:
    (run.parent / "outside.jsonl").write_text('{"step": 1, "values": {"x": 1}}\n')
    (run / "attempts/01/metrics.jsonl").unlink()
    (run / "attempts/01/metrics.jsonl").symlink_to(target)
    assert "a link" in found(run)["attempts/01/metrics.jsonl"]
    shutil.rmtree(run / "attempts/01")
    (run / "attempts/01").symlink_to(built / "attempts/01")
    assert "a link" in found(run)["attempts/01/exit.json"], "nor is a folder entered by one"


@pytest.mark.parametrize("name", ["finish.flag", "result.json", "journal.jsonl", "attempts/01/exit.json"])
def test_special_files_are_not_opened(run: Path, name: str) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    assert name in found(run)


@pytest.mark.parametrize("path", ["../other/result.md", "/etc/passwd", "", "a\0b"])
def test_a_manifest_names_only_what_is_in_the_folder(run: Path, path: str) -> None:
    flag = json.loads((run / "finish.flag").read_text())
    flag["manifest"][0]["path"] = path
    write_json(run / "finish.flag", flag)
    assert "finish.flag, manifest" in found(run)


def test_contents_are_compared_to_the_last_digits_and_with_masks() -> None:
    assert list(tree_differences({"a": [1.0, "x"]}, {"a": [1.0 + 1e-13, "x"]})) == []
    assert list(tree_differences({"a": 1, "b": 2}, {"a": True})) == [("a", 1, True), ("b", 2, None)]
    assert line_difference("a,1.0\nb", "a,1.0000000000001\nb") is None
    assert line_difference("a\nb 1", "a\nb 2") == (2, "b 1", "b 2")
    assert is_same_text("the key [redacted].", "the key abcdefgh1.")
    assert not is_same_text("the key [redacted].", "the key is not so.")
