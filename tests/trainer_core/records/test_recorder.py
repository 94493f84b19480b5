"""What a training keeps, and that it goes on whatever the disk does."""

import errno
import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from random import Random
from string import ascii_letters

import pytest

from tests.small_disk import small_disk
from tests.trainer_core.records.conftest import episode
from trainer_core.engine.tiny_model import make_tokenizer
from trainer_core.records.recorder import Recorder
from trainer_core.records.store import EpisodeStore
from trainer_core.types import Call, Episode

TOKENIZER = make_tokenizer()


def recorder(folder: Path, said: list[str], done: int | None = None) -> Recorder:
    return Recorder(
        folder,
        TOKENIZER,
        keeps=lambda step: step % 2 == 0,
        resume={"train": done, "validation": done},
        say=said.append,
    )


def answered(answer: str) -> Episode:
    prompt, sampled = (tuple(TOKENIZER(text)["input_ids"]) for text in ("what? ", answer))
    return episode("t", Call(prompt, sampled, (-0.5,) * len(sampled)), output=answer)


def data_of(page: Path) -> dict[str, object]:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert found is not None
    parsed: dict[str, object] = json.loads(found[1])
    return parsed


def test_only_chosen_steps_are_kept_with_their_advantages(tmp_path: Path) -> None:
    said: list[str] = []
    keeper = recorder(tmp_path, said)
    for step in range(1, 5):
        keeper.training(step, [answered("a"), answered("b")], [0.5, float("nan")])
    keeper.close()
    records = EpisodeStore(tmp_path).records()
    assert [(one.step, one.advantage) for one in records] == [(2, 0.5), (2, None), (4, 0.5), (4, None)]
    assert said == []


def test_tokens_have_the_text_they_have_behind_others(tmp_path: Path) -> None:
    keeper = recorder(tmp_path, [])
    keeper.validation(0, [answered(" an answer <|end|>")])
    store = EpisodeStore(tmp_path)
    call = store.read(store.records()[0]).calls[0]
    text = "".join(store.pieces[each] for each in call.prompt_ids + call.completion_ids)
    assert text == "what?  an answer <|end|>"


def test_first_and_last_show_the_first_and_the_last_validation(tmp_path: Path) -> None:
    keeper = recorder(tmp_path, [])
    keeper.validation(0, [answered("at first"), answered("other")])
    assert not (tmp_path / "last.html").exists()
    keeper.validation(2, [answered("so so")])
    keeper.close()
    keeper = recorder(tmp_path, [], done=2)  # gone on with: the first stays the first
    keeper.validation(4, [answered("at last")])
    shown = [data_of(tmp_path / name)["texts"] for name in ("first.html", "last.html")]
    assert shown == [
        [["Task", "user: What?"], ["Expected answer", "this"], ["Output", text]]
        for text in ("at first", "at last")
    ]


def test_a_full_disk_is_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    with small_disk(tmp_path / "small", 0.5) as disk:
        keeper = recorder(disk / "episodes", said)
        keeper.training(2, [answered("early")], [1.0])
        (disk / "other").write_bytes(bytes(300_000))
        random = Random(0)
        for step in range(4, 12, 2):
            noise = [answered("".join(random.choices(ascii_letters, k=2000))) for _ in range(60)]
            keeper.training(step, noise, [0.0] * len(noise))
        keeper.validation(12, [answered("late")])
        keeper.close()
        assert len(said) == 1
        assert "no more episodes are recorded" in said[0]
        assert [one.step for one in EpisodeStore(disk / "episodes").records()][:1] == [2]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), None])
def test_a_folder_that_cannot_be_used_is_said_once(
    tmp_path: Path, error: OSError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    (tmp_path / "file").write_text("in the way")
    with nullcontext() if error is None else monkeypatch.context() as patched:
        if patched is not None:

            def fails(*_: object, **__: object) -> Sequence[object]:
                raise error

            patched.setattr(EpisodeStore, "_append", fails)
        keeper = recorder(tmp_path / ("file" if error is None else "episodes"), said)
        for step in (2, 4):
            keeper.training(step, [answered("a")], [0.0])
            keeper.validation(step, [answered("a")])
        keeper.close()
    (line,) = said
    assert line.startswith("warning: no more episodes are recorded (")
    assert line.endswith("; training goes on without")
