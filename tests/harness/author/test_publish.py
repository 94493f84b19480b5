"""Paid work is not lost: the place is tried out first, and what cannot go there is kept beside it."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.author.draft import Brief
from harness.author.publish import check_place, hand_over, keep_beside
from harness.blueprint.scaffold import ScaffoldError
from tests.harness.author.authoring import CHECK, FINISH, WORDS, author, blueprint, config, names_in


def brief(cwd: Path, folder: str) -> Brief:
    return Brief(WORDS, folder=Path(folder), cwd=cwd)


def test_a_place_is_tried_out_and_left_as_it_was(tmp_path: Path) -> None:
    for folder in (".", "new/and/deeper"):
        check_place(brief(tmp_path, folder))
    assert names_in(tmp_path) == []
    (tmp_path / "notes.txt").write_text("x")
    for folder in ("notes.txt", "notes.txt/deeper"):
        with pytest.raises(ScaffoldError, match=r"notes\.txt \(Not a directory\); choose another --dir"):
            check_place(brief(tmp_path, folder))
    with pytest.raises(ScaffoldError, match="nothing can be made in /proc"):
        check_place(brief(tmp_path, "/proc/experiments"))


async def test_what_cannot_be_handed_over_is_kept(tmp_path: Path) -> None:
    here, transcript = tmp_path / "here", tmp_path / "transcript.jsonl"
    here.mkdir()
    transcript.write_text("{}\n")
    desk, ended, _ = await author(here, [blueprint(), config(total_training_steps=20), CHECK, FINISH])
    assert ended.trouble == ""
    (here / "kl-low").write_text("somebody was faster")
    with pytest.raises(ScaffoldError):
        hand_over(desk, transcript)
    kept = keep_beside(desk, transcript)
    assert kept is not None and kept.parent == here
    assert names_in(kept) == ["blueprint.md", "config.yaml", "transcript.jsonl"]
    assert "total_training_steps: 20" in (kept / "config.yaml").read_text()
    desk.brief = replace(desk.brief, folder=Path("/proc"))
    kept = keep_beside(desk, transcript)
    assert kept is not None and kept.parent == here, "nothing can be written in the first place"
