"""An outside model that is asked everything once: what it gave is kept in a file for the next run."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import BaseModel

from trainer_core.types import TrainingError

if TYPE_CHECKING:
    from trainer_core.outside_model import OutsideModel

Shape = TypeVar("Shape", bound=BaseModel)
Asked = TypeVar("Asked")
Vector = np.ndarray[Any, np.dtype[np.float32]]


class NotKeptError(Exception):
    """Something would have to be asked for, and nothing is to be."""


class KeptModel:
    """An `OutsideModel` that looks into its file first. Raises TrainingError also if that cannot be used."""

    def __init__(
        self,
        make_model: Callable[..., OutsideModel] | None,
        file: Path,
        setting: str,
        model: str,
        **options: Any,
    ) -> None:
        """`make_model`: makes the client, of the name and options, once something has to be asked for; None:
        that is a `NotKeptError`. `setting`: what names the folder of `file`."""
        self._make_model = make_model
        self._file = file
        self._setting = setting
        self._name = model
        self._options = options
        self._model: OutsideModel | None = None

    async def ask(self, instructions: str, data: Any, shape: type[Shape]) -> Shape:
        """See `OutsideModel.ask`."""

        async def request(model: OutsideModel, missing: list[Any]) -> list[bytes]:
            return [(await model.ask(instructions, data, shape)).model_dump_json().encode()]

        (reply,) = await self._replies([(instructions, data)], request)
        return shape.model_validate_json(reply)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """See `OutsideModel.embed`."""

        async def request(model: OutsideModel, missing: list[str]) -> list[bytes]:
            return [np.asarray(vector, np.float32).tobytes() for vector in await model.embed(missing)]

        return [np.frombuffer(reply, np.float32) for reply in await self._replies(texts, request)]

    async def close(self) -> None:
        """Close the connections, before the event loop ends."""
        if self._model is not None:
            await self._model.close()

    async def _replies(
        self, asked: Sequence[Asked], request: Callable[[OutsideModel, list[Asked]], Awaitable[list[bytes]]]
    ) -> list[bytes]:
        """The reply to each; those that are not in the file come from `request`."""
        model = [self._name, self._options.get("temperature")]
        texts = (json.dumps([*model, each], sort_keys=True) for each in asked)
        keys = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        found: dict[str, bytes] = {}
        if self._file.is_file():
            with self._opened() as database:
                for key in keys:
                    found.update(database.execute("SELECT * FROM replies WHERE key = ?", [key]))
        missing = {key: each for key, each in zip(keys, asked, strict=True) if key not in found}
        if missing:
            if self._make_model is None:
                raise NotKeptError
            self._model = self._model or self._make_model(self._name, **self._options)
            new = dict(zip(missing, await request(self._model, [*missing.values()]), strict=True))
            with self._opened() as database:
                database.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?)", new.items())
            found |= new
        return [found[key] for key in keys]

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._file)) as database, database:
                database.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply BLOB)")
                yield database
        except (OSError, sqlite3.Error) as error:
            raise TrainingError(
                f"{self._setting}: replies of {self._name} cannot be kept in {self._file.absolute()}: "
                f"{error}. Remove that file, free some space, or name another folder"
            ) from None
