"""What a training writes its episodes through: which steps are kept; no disk stops a training."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainer_core.records.page import episode_page
from trainer_core.records.store import EpisodeStore, RecordsError, Split
from trainer_core.tracking.atomic import write_atomically
from trainer_core.types import Episode

FIRST, LAST = "first.html", "last.html"


class Recorder:
    """Keeps the episodes of every validation, and of the training steps that `keeps` names."""

    def __init__(
        self,
        folder: Path,
        tokenizer: Any,
        *,
        keeps: Callable[[int], bool],
        resume: Mapping[Split, int | None],
        say: Callable[[str], None],
    ) -> None:
        """Open the store in `folder`. Where it cannot be opened or, later, written, that is said once and
        training goes on without records.

        Args:
            keeps: True for a training step whose episodes are kept.
            resume: the last step of each split that is not written again; None: all are.
        """
        self._tokenizer = tokenizer
        self._keeps = keeps
        self._say = say
        self._store: EpisodeStore | None = None
        with self._going_on():
            self._store = EpisodeStore(folder, writes=True)
            self._store.drop_after(resume)

    def training(self, step: int, episodes: Sequence[Episode], advantages: Sequence[float]) -> None:
        """Keep the episodes of a training step, if it is one of those. `advantages`: NaN for an episode that
        was not trained on."""
        if self._store is not None and self._keeps(step):
            known = [None if value != value else value for value in advantages]
            with self._going_on():
                self._store.write("train", step, episodes, self._pieces, known)

    def validation(self, step: int, episodes: Sequence[Episode]) -> None:
        """Keep the episodes of a validation, and show the first of them in `first.html` or `last.html`."""
        if self._store is None:
            return
        with self._going_on():
            is_first = not self._store.records("split = 'validation'", limit=1)
            self._store.write("validation", step, episodes, self._pieces)
            shown = self._store.records("split = 'validation' AND step = ?", [step], limit=1)[0]
            page = episode_page(self._store, shown)
            write_atomically(self._store.folder / (FIRST if is_first else LAST), page)

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """What a disk can do to a write becomes one warning."""
        try:
            yield
        except (OSError, sqlite3.Error, RecordsError) as error:
            self.close()
            self._store = None
            told = str(error).rstrip(".")
            self._say(f"warning: no more episodes are recorded ({told}); training goes on without")

    def _pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each token, as it stands behind another one: alone it might lose a leading blank."""
        before = self._tokenizer("0", add_special_tokens=False)["input_ids"][-1:]
        lead = self._tokenizer.decode(before)
        texts = self._tokenizer.batch_decode([[*before, each] for each in ids])
        return [text.removeprefix(lead) for text in texts]
