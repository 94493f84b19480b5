"""A user's own signature files: what can be used is, what cannot is told."""

import os
from pathlib import Path

import pytest

from harness.diagnosis.signatures import SignatureError, load, load_usable

GOOD = "- {id: ours, family: auth, name: a, cause: b, when: [{message: 'our own words'}]}\n"
BROKEN = {
    "no YAML": b"- id: [a\n",
    "not UTF-8": b"- id: \xff\xfe\n",
    "no list": b"id: a\n",
    "a wrong pattern": GOOD.replace("own words", "own words(").encode(),
    "an endless pattern": GOOD.replace("own words", "own words{99999999999}").encode(),
    "no such date": b"- 2024-99-99\n",
    "nested too deeply": GOOD.replace("own words", "own words" + "(" * 3000 + ")" * 3000).encode(),
}


def ids(folder: Path) -> set[str]:
    return {signature.id for signature in load_usable([folder])[0].signatures}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_cannot_be_used_is_an_error_or_left_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.yaml").write_bytes(content)
    (tmp_path / "good.yaml").write_text(GOOD)
    with pytest.raises(SignatureError, match=r"bad\.yaml"):
        load([tmp_path])
    book, (told,) = load_usable([tmp_path])
    assert "bad.yaml" in told
    assert "ours" in {signature.id for signature in book.signatures}
    assert len(book.signatures) == len(load([]).signatures) + 1


def test_of_two_files_with_one_id_the_first_counts_and_brings_all_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD.replace("ours", "other") + GOOD)
    with pytest.raises(SignatureError, match="two signatures with the id ours"):
        load([tmp_path])
    assert "ours" in ids(tmp_path) and "other" not in ids(tmp_path)


def test_a_mended_file_is_used(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("no list")
    assert "ours" not in ids(tmp_path)
    file.write_text(GOOD)
    os.utime(file, ns=(1, 1))
    assert "ours" in ids(tmp_path)


def test_the_lock_of_an_editor_is_no_signature_file(tmp_path: Path) -> None:
    (tmp_path / ".#a.yaml").symlink_to("ada@host.1:2")
    assert len(load([tmp_path]).signatures) == len(load([]).signatures)
