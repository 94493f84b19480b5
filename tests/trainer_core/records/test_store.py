"""Episodes on disk, whatever happens to the process and the disk."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trainer_core.records.conftest import episode, letters, say
from trainer_core.records import store as store_module
from trainer_core.records.payload import unpack
from trainer_core.records.secrets import MASKED
from trainer_core.records.store import INDEX, PAYLOADS, EpisodeStore, RecordsError

Reopened = Callable[[], EpisodeStore]
ROOT = Path(__file__).parents[3]


def test_rows_say_what_an_episode_came_to(store: EpisodeStore, reopened: Reopened) -> None:
    good, bad, _, _, validated = reopened().records()
    assert (good.split, good.step, good.task_id, good.repeat) == ("train", 1, "a", 0)
    assert (good.reward, good.is_success, good.advantage, good.metrics) == (
        0.25,
        False,
        0.5,
        '{"turns": 1.0}',
    )
    assert (good.calls, good.prompt_tokens, good.sampled_tokens, good.weight_version) == (1, 6, 5, 0)
    assert (bad.reward, bad.error, bad.advantage, bad.weight_version) == (
        None,
        "the server is gone",
        None,
        None,
    )
    assert (validated.split, validated.reward) == ("validation", 1.0)


def test_an_episode_is_read_while_another_process_writes(store: EpisodeStore, reopened: Reopened) -> None:
    reader = reopened()
    store.write("train", 3, [episode("late", say("Where? ", "There."))], letters)
    record = reader.records("task_id = ?", ["late"])[0]
    assert reader.read(record) == episode("late", say("Where? ", "There."))
    assert reopened().pieces[ord("W")] == "W"


def test_several_episodes_share_a_frame_and_large_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_FRAME_BYTES", 2000)
    given = [episode(str(number), say("x" * 200 * (number % 3), "y")) for number in range(12)]
    opened = EpisodeStore(tmp_path, writes=True)
    opened.write("train", 1, given, letters)
    records = opened.records()
    assert 1 < len({one.frame_at for one in records}) < 12
    assert [opened.read(one) for one in records] == given
    data = (tmp_path / PAYLOADS).read_bytes()  # as a stranger would read it
    frames = dict.fromkeys((one.frame_at, one.frame_bytes) for one in records)
    assert [each for at, size in frames for each in unpack(data[at : at + size])] == given


def test_a_resumed_run_writes_later_steps_again(store: EpisodeStore) -> None:
    store.drop_after({"train": 1, "validation": 1})
    assert [(one.split, one.step) for one in store.records()] == [("train", 1), ("train", 1)]
    store.write("train", 2, [episode("again")], letters)
    assert [one.task_id for one in store.records()] == ["a", "b", "again"]
    assert store.read(store.records()[-1]) == episode("again")
    store.drop_after({"train": None, "validation": None})
    assert (store.records(), (store.folder / PAYLOADS).stat().st_size) == ([], 0)
    assert set(store.pieces) == {MASKED}


@pytest.mark.parametrize("steps", [1, 7])
def test_a_killed_writer_leaves_everything_it_said_was_done(tmp_path: Path, steps: int) -> None:
    program = [sys.executable, "-m", "tests.trainer_core.records.killed", str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        done = [int(writer.stdout.readline()) for _ in range(steps)]
        writer.kill()
    opened = EpisodeStore(tmp_path, writes=True)
    records = opened.records()
    assert len(records) % 20 == 0
    assert len(records) // 20 >= len(done)
    for one in records:
        assert opened.read(one) == episode(one.task_id, say("ask ", str(one.step)))
    end = max(one.frame_at + one.frame_bytes for one in records)
    assert (tmp_path / PAYLOADS).stat().st_size == end


@pytest.mark.parametrize("left", ["half a frame", "a frame that no row names", "nothing"])
def test_torn_files(store: EpisodeStore, reopened: Reopened, left: str) -> None:
    """A crash between the append and the commit leaves more bytes, a power cut can leave fewer."""
    payloads = store.folder / PAYLOADS
    whole = payloads.read_bytes()
    count = len(store.records())
    torn = {"half a frame": whole[:-9], "a frame that no row names": whole + whole[:50], "nothing": b""}[left]
    payloads.write_bytes(torn)
    readable = [one for one in store.records() if one.frame_at + one.frame_bytes <= len(torn)]
    assert [reopened().read(one).task.task_id for one in readable] == [one.task_id for one in readable]
    for one in reopened().records()[len(readable) :]:
        with pytest.raises(RecordsError, match=f"episode {one.id} "):
            reopened().read(one)
    repaired = EpisodeStore(store.folder, writes=True)
    assert repaired.records() == readable
    assert len(readable) == {"half a frame": count - 1, "nothing": 0}.get(left, count)
    repaired.write("train", 9, [episode("next")], letters)
    assert repaired.read(repaired.records()[-1]) == episode("next")


def test_a_damaged_payload_is_named_and_others_are_read(store: EpisodeStore) -> None:
    first, *_, last = store.records()
    with (store.folder / PAYLOADS).open("r+b") as file:
        file.seek(last.frame_at + last.frame_bytes // 2)
        file.write(b"\xff\xff\xff")
    with pytest.raises(RecordsError, match=f"episode {last.id} "):
        store.read(last)
    assert store.read(first).reward == 0.25


def test_secrets_are_masked_in_what_is_stored(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2" * 9
    opened = EpisodeStore(tmp_path, writes=True)
    opened.write("train", 1, [episode("t", say("my key: ", key), output=key, error=f"no {key}")], letters)
    record = opened.records()[0]
    read = opened.read(record)
    assert read.calls[0].completion_ids == (MASKED,) * len(key)
    assert (read.output, record.error) == ("[redacted]", "no [redacted]")
    assert len(read.calls[0].logprobs) == len(key)
    opened.close()
    assert not any(key.encode() in path.read_bytes() for path in tmp_path.iterdir())


def test_text_that_is_no_unicode_is_kept(tmp_path: Path) -> None:
    opened = EpisodeStore(tmp_path, writes=True)
    opened.write("train", 1, [episode("\udcff", error="\udc80", output="\x00")], letters)
    assert opened.read(opened.records()[0]).task.task_id == "\udcff"
    assert opened.records()[0].error == "\\udc80"


def test_a_newer_format_is_refused(store: EpisodeStore) -> None:
    store.close()
    index = sqlite3.connect(store.folder / INDEX)
    index.execute("PRAGMA user_version = 2")
    for writes in (False, True):
        with pytest.raises(RecordsError, match=r"index.sqlite has format 2, this version reads 1\. Read it"):
            EpisodeStore(store.folder, writes=writes)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="no records of episodes in"):
        EpisodeStore(tmp_path)
    (tmp_path / INDEX).write_text("this is no database, it only looks like one from afar" * 20)
    for writes in (False, True):
        with pytest.raises(RecordsError, match=r"index\.sqlite cannot be read: file is not a database"):
            EpisodeStore(tmp_path, writes=writes)


def test_a_closed_store_is_two_files_that_a_read_only_disk_may_hold(store: EpisodeStore) -> None:
    store.close()
    assert sorted(path.name for path in store.folder.iterdir()) == [INDEX, PAYLOADS]
    assert (store.folder / INDEX).read_bytes()[18:20] == b"\x01\x01"  # not in WAL mode, which writes to read


def test_a_failed_write_adds_nothing(store: EpisodeStore) -> None:
    def fails(ids: object) -> list[str]:
        raise OSError("no space left")

    before = store.records()
    with pytest.raises(OSError):
        store.write("train", 3, [episode("t", say("new letters: ÄÖÜ", ""))], fails)
    assert store.records() == before
