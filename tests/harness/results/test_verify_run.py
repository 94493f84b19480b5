"""A finished run is held to its raw files: whatever is changed, taken away or added is found, and named."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.results.verify import with_checksum
from harness.results.verifying.fingerprints import manifest, sha256
from harness.results.verifying.run import verify_run
from harness.results.verifying.types import NotFinishedError
from tests.harness.results.finished import finished_run


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result_dir = finished_run(tmp_path_factory.mktemp("built") / "sort")
    checked = verify_run(result_dir)
    assert checked.discrepancies == ()
    return result_dir


@pytest.fixture
def run(built: Path, tmp_path: Path) -> Path:
    """A finished folder that was copied to another place."""
    return Path(shutil.copytree(built, tmp_path / "elsewhere"))


def found(result_dir: Path) -> dict[str, str]:
    return {item.where: item.what for item in verify_run(result_dir).discrepancies}


def files_of(result_dir: Path) -> list[Path]:
    return sorted(path for path in result_dir.rglob("*") if path.is_file() and path.stat().st_size)


def forge(result_dir: Path, change: Callable[[dict[str, Any]], None]) -> None:
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
    assert checked.numbers > 90
    assert checked.summary.endswith("checked: nothing differs")


@pytest.mark.parametrize("count", [80, pytest.param(3000, marks=pytest.mark.soak)])
def test_any_changed_byte_is_found(run: Path, count: int) -> None:
    rng = random.Random(count)
    files = files_of(run)
    assert {path.suffix for path in files} >= {
        ".json",
        ".jsonl",
        ".html",
        ".png",
        ".svg",
        ".md",
        ".flag",
    }
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


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.soak)])
def test_no_folder_however_damaged_makes_an_error(run: Path, count: int) -> None:
    rng = random.Random(count)
    files = files_of(run)
    names = ["result.json", "finish.flag", "journal.jsonl", "attempts/01/metrics.jsonl"]
    odd = [
        b"null",
        b"[]",
        b'"x"',
        b"-1",
        b"1e999",
        b"9" * 400,
        b"{}",
        b"\xff",
        b"../..",
        b"NaN",
        b"true",
        b"",
    ]
    for _ in range(count):
        path = rng.choice([*(run / name for name in names), rng.choice(files)])
        before = path.read_bytes()
        start = rng.randrange(len(before))
        end = min(len(before), start + rng.choice([1, 5, 50, 5000]))
        path.write_bytes(before[:start] + rng.choice(odd) + before[end:])
        if path.read_bytes() != before:
            assert verify_run(run).discrepancies
        path.write_bytes(before)


@pytest.mark.parametrize(
    "value", [None, [], {}, "x", -1, 10**400, 1e999, True, ["../../etc/passwd"], [{"path": "/etc/passwd"}]]
)
@pytest.mark.parametrize("key", ["facts", "manifest", "documents", "figures", "schema"])
def test_a_part_of_the_wrong_kind_is_named(run: Path, key: str, value: Any) -> None:
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, key: value}))
    assert "result.json" in found(run)


FACTS: dict[str, dict[str, Any]] = {
    "a source outside": {"sources": [{"file": "../secret.json", "key": "x"}]},
    "a source that is no raw file": {"sources": [{"file": "result.md", "line": 1, "key": "x"}]},
    "a source without end": {
        "sources": [{"file": "attempts/01/metrics.jsonl", "line": 1, "last_line": 10**12}]
    },
    "a line that is not there": {
        "sources": [{"file": "attempts/01/metrics.jsonl", "line": 99, "key": "loss"}]
    },
    "no source": {"sources": []},
    "another recipe": {"recipe": "wishful"},
    "a recipe that needs two sources": {"recipe": "paired_difference"},
    "a measure nobody knows": {"recipe": "task_mean", "measure": "first@many"},
    "a huge number": {"value": 10**400},
    "text for a number": {"value": "0.9"},
    "an invented interval": {"interval_95": {"low": 0.1, "high": 0.2, "method": "m", "n": 3}},
    "something more": {"comment": "trust me"},
}


@pytest.mark.parametrize("name", FACTS)
def test_a_number_that_cannot_be_found_again_is_named(run: Path, name: str) -> None:
    place = "metric/actor/kl_loss/last"

    def change(result: dict[str, Any]) -> None:
        next(fact for fact in result["facts"] if fact["id"] == place).update(FACTS[name])

    forge(run, change)
    (where,) = found(run)
    assert where == place or where.startswith("result.json, number ")


def replace_table(result_dir: Path, name: str, rows: list[str]) -> str:
    """Write other rows, with the fingerprint that belongs to them; what is found then."""
    path = result_dir / name
    path.write_text("\n".join(rows) + "\n")

    def change(result: dict[str, Any]) -> None:
        recorded = next(item for item in result["documents"] if item["path"] == name)
        recorded.update(sha256=sha256(path), bytes=path.stat().st_size)

    forge(result_dir, change)
    return found(result_dir).get(name, "")


@pytest.mark.parametrize(("name", "of"), [("reward", "y"), ("reward", "sources"), ("validation", "low")])
def test_the_data_of_a_figure_is_held_to_the_raw_files(run: Path, name: str, of: str) -> None:
    file = f"figures/{name}.json"
    data = json.loads((run / file).read_text())
    assert replace_table(run, file, [json.dumps(data)]) == ""
    data["panels"][0]["lines"][0][of][1] = 0.99
    assert replace_table(run, file, [json.dumps(data)]) == "its data is not what the raw files give"


def test_what_is_missing_and_what_is_there_too_many_is_named(run: Path) -> None:
    (run / "figures" / "reward.png").unlink()
    (run / "attempts/01/exit.json").unlink()
    (run / "attempts/02").mkdir()
    (run / "attempts/02/metrics.jsonl").write_text('{"step": 13, "values": {"critic/rewards/mean": 1.0}}\n')
    named = found(run)
    assert named["figures/reward.png"] == "the file is gone"
    assert named["attempts/01/exit.json"] == "the file is gone"
    assert "nothing accounts for this file" in named["attempts/02/metrics.jsonl"]


def test_checkpoints_may_go(run: Path) -> None:
    folder = run / "attempts/01/trainer/checkpoints/step_000012"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    assert found(run) == {}


def test_flag_and_journal_must_tell_the_same_end(run: Path) -> None:
    flag = json.loads((run / "finish.flag").read_text())
    told = {**flag, "outcome": "stopped_early", "exit_code": 0.0, "attempts": True}
    (run / "finish.flag").write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    named = found(run)
    assert set(named) == {"finish.flag, outcome", "finish.flag, exit_code", "finish.flag, attempts"}
    assert named["finish.flag, outcome"] == "it says 'stopped_early', the journal 'succeeded'"


def test_a_damaged_entry_of_the_journal_is_named_by_its_line(run: Path) -> None:
    path = run / "journal.jsonl"
    path.write_text(path.read_text().replace('"action":"launch"', '"action":"lunch!"', 1))
    said = [item.what for item in verify_run(run).discrepancies if item.where == "journal.jsonl"]
    assert any(what.startswith("line 4: this entry does not carry its own checksum") for what in said)


def test_a_blueprint_that_is_not_the_issued_one_is_named_by_its_sections(run: Path) -> None:
    path = run / "blueprint.md"
    path.write_text(path.read_text().replace("1e-4", "3e-4").replace("2 hours", "3 hours"))
    said = [item.what for item in verify_run(run).discrepancies if item.where == "blueprint.md"]
    assert "not as it was issued: launch_command, max_time_s" in said


@pytest.mark.parametrize(
    "target", ["/dev/zero", "/etc/passwd", "../../outside.jsonl", "trainer/metrics.jsonl"]
)
def test_links_are_not_followed(run: Path, target: str) -> None:
    (run.parent / "outside.jsonl").write_text('{"step": 1, "values": {"x": 1}}\n')
    (run / "attempts/01/metrics.jsonl").unlink()
    (run / "attempts/01/metrics.jsonl").symlink_to(target)
    assert "a link" in found(run)["attempts/01/metrics.jsonl"]


def test_a_folder_that_is_a_link_is_not_entered(run: Path, built: Path) -> None:
    shutil.rmtree(run / "attempts/01")
    (run / "attempts/01").symlink_to(built / "attempts/01")
    assert "a link" in found(run)["attempts/01/exit.json"]


@pytest.mark.parametrize("name", ["finish.flag", "result.json", "journal.jsonl", "attempts/01/exit.json"])
def test_special_files_are_not_opened(run: Path, name: str) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    assert any(where.partition(",")[0] == name for where in found(run))


@pytest.mark.parametrize("path", ["../other/result.md", "/etc/passwd", "", "a\0b"])
def test_a_manifest_names_only_what_is_in_the_folder(run: Path, path: str) -> None:
    flag = json.loads((run / "finish.flag").read_text())
    flag["manifest"][0]["path"] = path
    (run / "finish.flag").write_text(json.dumps(flag, indent=2, ensure_ascii=False) + "\n")
    assert "finish.flag" in found(run)


def test_names_that_are_not_text_are_kept_apart(tmp_path: Path) -> None:
    folder = tmp_path / "attempts" / "01"
    folder.mkdir(parents=True)
    (folder / os.fsdecode(b"\xff.log")).write_bytes(b"x")
    (entry,) = manifest(tmp_path)
    assert entry["path"] == "attempts/01/\\xff.log"
    json.dumps(entry, ensure_ascii=False).encode()


def test_a_run_without_an_end_is_not_verified(run: Path) -> None:
    (run / "finish.flag").unlink()
    with pytest.raises(NotFinishedError, match="harness resume"):
        verify_run(run)
