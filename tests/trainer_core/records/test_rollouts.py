"""`ajet rollouts` as a user types it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.trainer_core.records.conftest import episode, letters, say
from trainer_core.records.rollouts import app
from trainer_core.records.store import EpisodeStore


def rollouts(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def tasks(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [each["task_id"] for each in json.loads(result.stdout)]


@pytest.fixture
def folder(store: EpisodeStore) -> Path:
    return store.folder.parent


def test_the_table(folder: Path) -> None:
    lines = rollouts(folder).stdout.splitlines()
    heads = ("id", "step", "split", "task", "try", "reward", "ended", "calls", "prompt", "sampled", "seconds")
    assert tuple(lines[0].split()) == heads
    assert [line.split() for line in lines[1:3]] == [
        ["1", "1", "train", "a", "1", "0.25", "finished", "1", "6", "5", "0.00"],
        ["2", "1", "train", "b", "2", "-", "finished", "0", "0", "0", "0.00"],
    ]
    assert len({line.index("fini") for line in lines[1:]}) == 1  # columns stand one below the other


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "ababv"),
        (("--step", 2), "abv"),
        (("--split", "validation"), "v"),
        (("--task", "b", "--step", 1), "b"),
        (("--failed",), "bb"),
        (("--min-reward", 0.5), "av"),
        (("--max-reward", 0.5), "aa"),
        (("--sort", "-reward", "--min-reward", 0), "vaa"),
        (("--sort", "task"), "aabbv"),
        (("--sort", "-tokens"), "aavbb"),
        (("--limit", 1), "a"),
        (("--limit", 0), "ababv"),
        (("--task", "'; DROP TABLE episodes; --"), ""),
    ],
)
def test_filters_and_order(folder: Path, words: tuple[object, ...], expected: str) -> None:
    assert "".join(tasks(rollouts(folder, "--json", *words))) == expected


def test_what_is_left_out_is_said(folder: Path) -> None:
    assert rollouts(folder, "--limit", 2).stdout.splitlines()[-1] == "3 more; --limit 0 lists all 5"


def test_json_has_what_the_table_has(folder: Path) -> None:
    first = json.loads(rollouts(folder, "--json").stdout)[0]
    assert first["metrics"] == {"turns": 1.0}
    assert (first["advantage"], first["is_success"], "frame_at" in first) == (0.5, False, False)


def test_show_tells_what_each_call_adds(store: EpisodeStore) -> None:
    key = "ghp_" + "a1B2" * 9
    calls = say("Which? ", "Look.", agent="planner"), say("Which? Look. Found: ", f"A {key}.")
    store.write("train", 7, [episode("two", *calls, output="A", reward=0.5)], letters)
    shown = rollouts(store.folder, "--show", 6).stdout
    assert "Episode 6: training step 7, task two, try 1" in shown
    assert "--- call 1 of planner: prompt, 7 tokens\nWhich? \n" in shown
    assert "--- call 2: prompt, 8 tokens, after 12 tokens that call 1 has\n Found: \n" in shown
    assert f"--- call 2: {len(key) + 3} sampled tokens, stop\nA [redacted].\n" in shown
    data = json.loads(rollouts(store.folder, "--show", 6, "--json").stdout)
    assert data["episode"]["calls"][1]["prompt"] == "Which? Look. Found: "
    assert data["record"]["reward"] == 0.5


def test_a_page_is_written(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert rollouts(folder, "--html", 1, "-o", page).stdout == f"{page}\n"
    assert "Episode 1: training step 1" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [("--show", 99), ("--html", 99)])
def test_an_episode_that_is_not_there(folder: Path, words: tuple[object, ...]) -> None:
    result = rollouts(folder, *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no episode 99 in" in result.stderr


@pytest.mark.parametrize("place", ["run", "attempts/02/trainer", "attempts/02"])
def test_the_store_is_found(store: EpisodeStore, tmp_path: Path, place: str) -> None:
    inner = tmp_path / "new" / place / ("trainer" if place.endswith("02") else "")
    inner.mkdir(parents=True)
    store.close()
    store.folder.rename(inner / "episodes")
    given = tmp_path / "new" / ("" if place.endswith("trainer") else place)
    assert len(tasks(rollouts(given, "--json"))) == 5


def test_a_folder_without_records(tmp_path: Path) -> None:
    result = rollouts(tmp_path)
    assert result.exit_code == 1
    assert f"there are no records of episodes in {tmp_path}. Name the folder of a training" in result.stderr


def test_it_is_a_word_of_ajet(folder: Path) -> None:
    words = [sys.executable, "-m", "trainer_core.cli", "rollouts", str(folder), "--failed", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert [each["task_id"] for each in json.loads(done.stdout)] == ["b", "b"]
