"""What runs were carried out with: every difference once, and what a run does not tell of is none."""

from typing import Any

from harness.results.comparing import provenances


def record(gpus: list[str], **packages: str) -> dict[str, Any]:
    return {
        "git": {"commit": "1" * 40, "dirty": False},
        "interpreter": {"python": "3.11.9", "packages": packages},
        "hardware": {"cpu": "fast", "gpus": gpus, "usable_threads": 8},
    }


def test_values_stand_with_their_runs_the_most_common_first() -> None:
    runs = {
        "a": record(["NVIDIA H100 80GB HBM3"] * 8, torch="2.4"),
        "b": record(["NVIDIA H100 80GB HBM3"] * 4, torch="2.5"),
        "c": record(["NVIDIA H100 80GB HBM3"] * 4, torch="2.5", new="1"),
    }
    assert tuple(provenances.surroundings(runs)) == (
        "GPU differs: 4 × NVIDIA H100 80GB HBM3 (b, c); 8 × NVIDIA H100 80GB HBM3 (a)",
        "packages differ: new absent (a, b), 1 (c); torch 2.5 (b, c), 2.4 (a)",
    )
    assert tuple(provenances.code(runs)) == ()


def test_a_run_that_tells_nothing_is_not_another_machine() -> None:
    told = record(["A100"], torch="2.4")
    runs = {"a": told, "b": {"git": told["git"], "interpreter": None, "hardware": {}}}
    assert tuple(provenances.surroundings(runs)) == ()


def test_uncommitted_changes_are_told_apart_by_what_they_are() -> None:
    texts = {"a": "x", "b": "x", "c": "y"}
    diffs = {name: {"git": {"commit": "1", "dirty": True, "diff": text}} for name, text in texts.items()}
    (told,) = provenances.code(diffs)
    assert told.startswith("uncommitted code differs: diff ") and "(a, b)" in told and "(c)" in told
