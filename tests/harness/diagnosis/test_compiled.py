"""The shipped signatures that are kept for the next start: what comes back, and what counts for nothing."""

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.diagnosis import signatures
from harness.diagnosis.signatures.compiled import cache_file, digest_of, keep, recall
from harness.diagnosis.signatures.schema import Signature, parse

MADE_OF = digest_of(["- id: a"])
YAML = """
- id: disk_is_full
  family: disk_full
  name: Disk full
  cause: No room for {path}.
  when:
    - message: 'No space left on device: (?P<path>\\S+)|Disk quota exceeded'
      near: 'é'
  unless:
    - exception: 'Warning$'
  remedies: [free_disk, advise: Ask for more.]
"""


@pytest.fixture
def known() -> list[Signature]:
    found = parse(YAML, "x.yaml")
    keep(MADE_OF, found)
    return found


def test_what_was_kept_comes_back_whole_and_only_for_what_it_was_made_of(known: list[Signature]) -> None:
    found = recall(MADE_OF)
    assert found == known
    assert found is not None and found[0].when[0].message is not None
    assert found[0].when[0].message.plain == ("no space left on device: ", "disk quota exceeded")
    assert found[0].words == known[0].words != ()
    assert recall(digest_of(["- id: b"])) is None
    assert cache_file().stat().st_mode & 0o777 == 0o600


def test_texts_are_told_apart_also_by_where_they_end() -> None:
    assert len({digest_of(texts) for texts in (["a", "b"], ["b", "a"], ["ab"], ["a", "b", ""])}) == 4


def test_nothing_is_known_before_anything_was_kept() -> None:
    assert not cache_file().exists()
    assert recall(MADE_OF) is None


def _cut(data: bytes) -> bytes:
    return data[:-40]


def _one_character(data: bytes) -> bytes:
    return data.replace(b"disk_is_full", b"disk_is_fu11")


def _no_head(data: bytes) -> bytes:
    return data.partition(b"\n")[2]


def _not_a_list(data: bytes) -> bytes:
    return data.partition(b"\n")[0]


@pytest.mark.parametrize(
    "damage", [_cut, _one_character, _no_head, _not_a_list, lambda data: b"", lambda data: b"\xff\xfe\n\x00"]
)
def test_a_damaged_file_counts_for_nothing_and_is_replaced(
    known: list[Signature], damage: Callable[[bytes], bytes]
) -> None:
    file = cache_file()
    file.write_bytes(damage(file.read_bytes()))
    assert recall(MADE_OF) is None
    keep(MADE_OF, known)
    assert recall(MADE_OF) == known


def test_an_entry_of_another_version_that_has_the_right_digest_is_checked_as_yaml_is(
    known: list[Signature],
) -> None:
    newer = known[0].model_copy(update={"family": "no_such_family"})
    keep(MADE_OF, [newer])
    assert b"no_such_family" in cache_file().read_bytes()
    assert recall(MADE_OF) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_could_have_written_counts_for_nothing(known: list[Signature], mode: int) -> None:
    cache_file().chmod(mode)
    assert recall(MADE_OF) is None


def test_a_file_of_another_user_counts_for_nothing(
    known: list[Signature], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert recall(MADE_OF) is None


def test_where_nothing_can_be_written_the_signatures_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    keep(MADE_OF, parse(YAML, "x.yaml"))
    assert recall(MADE_OF) is None
    signatures._shipped.cache_clear()
    assert "gpu_oom" in signatures._shipped()
    assert blocked.read_text() == ""


def test_a_folder_in_its_place_is_left_alone() -> None:
    cache_file().mkdir(parents=True)
    keep(MADE_OF, parse(YAML, "x.yaml"))
    assert recall(MADE_OF) is None
    assert cache_file().is_dir()
    assert [*cache_file().parent.iterdir()] == [cache_file()]


def test_the_second_start_reads_no_yaml_and_knows_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    signatures._shipped.cache_clear()
    first = signatures._shipped()
    signatures._shipped.cache_clear()

    def refuse(text: str, where: str | Path) -> list[Signature]:
        raise AssertionError(f"{where} was read again")

    monkeypatch.setattr(signatures, "parse", refuse)
    assert signatures._shipped() == first
    assert [*signatures._shipped()] == [*first]


def _write_often(count: int, number: int) -> None:
    for turn in range(count):
        keep(MADE_OF, parse(YAML.replace("Disk full", f"Disk full {number} {turn}" * 500), "x.yaml"))


def test_of_two_that_write_at_once_each_reader_sees_one_whole_file(known: list[Signature]) -> None:
    processes = [
        multiprocessing.get_context("fork").Process(target=_write_often, args=(15, number))
        for number in (1, 2)
    ]
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes):
        assert recall(MADE_OF) is not None
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert [file.name for file in cache_file().parent.iterdir()] == [cache_file().name]
