"""Tasks that an outside model writes, from documents and from examples.

In: `task_reader.data_generation`. Out: tasks to train on and to validate on. Questions about the documents
are to validate on; tasks like the examples (about the documents, where there are any) are to train on. Where
there are only documents or only examples, three of ten tasks are to validate on.

The same replies make the same tasks, and each reply is kept: a run that is repeated or goes on asks nothing,
one that was cut short asks for what is missing.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BaseModel, StringConstraints

from trainer_core.config.section import path_of
from trainer_core.outside_model import OutsideModel
from trainer_core.outside_model.client import instructed
from trainer_core.tasks.documents import Piece, read_pieces
from trainer_core.tasks.huggingface import count_huggingface, read_huggingface
from trainer_core.tasks.jsonl import read_jsonl
from trainer_core.tasks.kept_model import KeptModel, NotKeptError
from trainer_core.tasks.order import held_out
from trainer_core.tasks.rows import id_of
from trainer_core.types import DataError, Task, TrainingError

if TYPE_CHECKING:
    from trainer_core.config.tasks import DataGeneration, QueryReader

_PREFIX = "task_reader.data_generation"
_FILTER = f"{_PREFIX}.deduplication_filter"
_PER_REQUEST = 10
"""Questions."""
_EXAMPLES_PER_REQUEST = 3
_MORE_ROUNDS = 3
"""Of requests, to make up for duplicates and for replies with fewer questions than asked for."""
_NAMED = 50
"""The last questions of the same material that a request names, so that others are written."""
_SEED = 42

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Splits = tuple[tuple[Task, ...], tuple[Task, ...]]


class _Pair(BaseModel):
    """A question and its answer."""

    question: Text
    answer: Text


class _Pairs(BaseModel):
    """What the model replies with."""

    tasks: list[_Pair]


def generate_tasks(
    settings: DataGeneration,
    *,
    say: Callable[[str], None],
    safe_point: Callable[[], None] = lambda: None,
    make_model: Callable[..., OutsideModel] = OutsideModel,
) -> Splits:
    """The tasks to train on and to validate on.

    Args:
        safe_point: called after every reply; raises where the run is to end.
        make_model: makes the client of a model.

    Raises:
        DataError: there is nothing to write tasks from, or it cannot be read.
        TrainingError: no endpoint is named, the model gives no usable answer, or replies cannot be kept.
    """
    pieces, examples = _sources(settings)
    try:
        kept = asyncio.run(_write(_Writer(settings, examples), pieces, examples))
    except NotKeptError:
        writer = _Writer(settings, examples, say, safe_point, make_model)
        return asyncio.run(_write(writer, pieces, examples))
    say(f"the tasks that {settings.llm_model} wrote are taken from {_replies()}")
    return kept


def count_generated(settings: DataGeneration) -> tuple[int, int, bool]:
    """How many tasks there are to train on and to validate on, without asking a model or the network; and
    whether they are written: else they are still to be, and there may be fewer.

    Raises:
        DataError, TrainingError: as `generate_tasks`.
    """
    queries = settings.query_reader
    if queries.type == "huggingface_dat_repo":  # what was written depends on rows that are not read here
        repo = queries.huggingface_dat_repo
        count_huggingface(repo.dataset_path, repo.dataset_name, repo.training_split)
        has_both = bool(read_pieces(settings.document_reader))
    else:
        pieces, examples = _sources(settings)
        try:
            like, about = asyncio.run(_write(_Writer(settings, examples), pieces, examples))
            return len(like), len(about), True
        except NotKeptError:
            has_both = bool(pieces and examples)
    wanted = settings.task_num
    training, validation = (wanted, wanted) if has_both else map(len, held_out(range(wanted)))
    return training, validation, False


def _sources(settings: DataGeneration) -> tuple[list[Piece], tuple[Task, ...]]:
    pieces, examples = read_pieces(settings.document_reader), _examples(settings.query_reader)
    if not pieces and not examples:
        raise DataError(
            f"{_PREFIX}: there is nothing to write tasks from. Name documents in document_reader."
            "document_path, examples in query_reader.jsonl_dataset_file.training.file_path, or both"
        )
    return pieces, examples


def _examples(queries: QueryReader) -> tuple[Task, ...]:
    if queries.type == "huggingface_dat_repo":
        repo = queries.huggingface_dat_repo
        return read_huggingface(repo.dataset_path, repo.dataset_name, repo.training_split)
    path = queries.jsonl_dataset_file.training.file_path
    return () if path is None else read_jsonl(path_of(path))


def _replies() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "ajet" / "generated_tasks" / "replies.sqlite"


async def _write(writer: _Writer, pieces: Sequence[Piece], examples: Sequence[Task]) -> Splits:
    materials = []
    for number in range(max(len(examples), len(pieces)) if examples else 0):
        few = range(number, number + min(_EXAMPLES_PER_REQUEST, len(examples)))
        chosen = [examples[place % len(examples)] for place in few]
        materials.append(_material(chosen, pieces[number % len(pieces)] if pieces else None))
    try:
        about = await writer.write("ask_about", [_material([], piece) for piece in pieces])
        like = await writer.write("write_similar", materials)
    finally:
        await writer.close()
    training, validation = (like, about) if about and like else held_out(about or like)
    return tuple(training), tuple(validation)


@dataclass(frozen=True)
class _Material:
    """What a request shows the model."""

    name: str
    """In error messages."""
    data: dict[str, Any]
    origin: dict[str, Any]
    """In the metadata of tasks."""
    asked: list[str] = field(default_factory=list)
    """The questions that were written from it so far, new or not."""


def _material(examples: Sequence[Task], piece: Piece | None) -> _Material:
    """Examples to write alike, a piece to write about, or both."""
    names, data, origin = [], dict[str, Any](), dict[str, Any]()
    if examples:
        origin["examples"] = [example.task_id for example in examples]
        data["examples"] = [{"question": each.main_query, "answer": each.answer} for each in examples]
        names.append(f"examples {', '.join(origin['examples'])}")
    if piece is not None:
        origin |= {"document": piece.document, "piece": piece.number}
        data["text"] = piece.text
        names.append(f"piece {piece.number} of {piece.document}")
    return _Material(" and ".join(names), data, origin)


class _Writer:
    """Asks for questions until there are enough that are new."""

    def __init__(
        self,
        settings: DataGeneration,
        known: Sequence[Task],
        say: Callable[[str], None] = lambda line: None,
        safe_point: Callable[[], None] = lambda: None,
        make_model: Callable[..., OutsideModel] | None = None,
    ) -> None:
        """`known`: whose questions count as duplicates. Without `make_model`, what is not kept is not asked
        for: see `NotKeptError`."""
        self._settings = settings
        self._say = say
        self._safe_point = safe_point
        self._model = KeptModel(
            make_model,
            _replies(),
            "XDG_CACHE_HOME",
            settings.llm_model,
            max_tokens=settings.llm_response_length,
            temperature=settings.sampling_params.temperature,
            at_once=settings.num_workers,
        )
        embeddings, params = None, settings.deduplication_filter.params
        if settings.deduplication_filter.enabled:
            is_named = params.api_key is not None or "base_url" in params.model_fields_set
            embeddings = KeptModel(
                make_model,
                path_of(params.db_path) / "embeddings.sqlite",
                f"{_FILTER}.params.db_path",
                params.model,
                at_once=settings.num_workers,
                base_url=params.base_url if is_named else None,
                api_key=params.api_key,
            )
        self._models = [self._model, *([embeddings] if embeddings else [])]
        self._new = _NewQuestions(known, embeddings, params.similarity_threshold)

    async def close(self) -> None:
        """Close the connections, before the event loop ends."""
        for model in self._models:
            await model.close()

    async def write(self, instructions: str, materials: Sequence[_Material]) -> list[Task]:
        """As many tasks as the config asks for, or fewer where the model writes no more that are new; none
        of no materials.

        Raises:
            TrainingError: a request got no usable answer, or no question is new.
        """
        if not materials:
            return []
        wanted, name = self._settings.task_num, self._settings.llm_model
        source = f"{materials[0].name} …" if len(materials) > 1 else materials[0].name
        self._say(f"{name} writes {wanted:,} questions from {source}")
        turn, found = cycle(random.Random(_SEED).sample(materials, len(materials))), list[Task]()
        for _ in range(-(-wanted // (len(materials) * _PER_REQUEST)) + _MORE_ROUNDS):
            missing = wanted - len(found)
            if not missing:
                return found
            each = min(_PER_REQUEST, -(-missing // len(materials)))
            shown = islice(turn, min(len(materials), -(-missing // each)))
            replies = await asyncio.gather(*(self._ask(instructions, each, material) for material in shown))
            new = await self._new.among([task for tasks in replies for task in tasks])
            found += new[:missing]
        if not found:
            raise TrainingError(
                f"{_PREFIX}: {name} wrote no new question from {source}. Name other documents or examples, "
                "or another llm_model"
            )
        if len(found) < wanted:
            self._say(f"warning: {name} wrote {len(found):,} different questions from {source}, no more")
        return found

    async def _ask(self, instructions: str, count: int, material: _Material) -> list[Task]:
        """What the model makes of a material."""
        already = {"already_asked": material.asked[-_NAMED:]} if material.asked else {}
        written, told = self._settings.llm_model, instructed(instructions, count=count)
        try:
            reply = await self._model.ask(told, material.data | already, _Pairs)
        except TrainingError as error:
            raise TrainingError(f"{_PREFIX}: no questions from {material.name}: {error}") from None
        self._safe_point()
        pairs = reply.tasks[:count]
        material.asked.extend(pair.question for pair in pairs)
        metadata = {**material.origin, "written_by": written}
        return [
            Task(id_of(pair.question, pair.answer), pair.question, pair.answer, metadata=metadata)
            for pair in pairs
        ]


class _NewQuestions:
    """Tells which questions are new, and remembers them: not those that are equal to an earlier one but for
    case and white space, nor, with embeddings, those that are nearly so."""

    def __init__(self, known: Sequence[Task], embeddings: KeptModel | None, threshold: float) -> None:
        """`threshold`: the cosine similarity from which on two questions are the same."""
        self._known = {_plain(task) for task in known}
        self._embeddings = embeddings
        self._threshold = threshold
        self._vectors: np.ndarray[Any, Any] | None = None

    async def among(self, tasks: Sequence[Task]) -> list[Task]:
        """The new ones; of several that are the same, the first is new.

        Raises:
            TrainingError: there are no embeddings.
        """
        different = []
        for task in tasks:
            if (plain := _plain(task)) not in self._known:
                self._known.add(plain)
                different.append(task)
        if self._embeddings is None or not different:
            return different
        try:
            rows = np.stack(await self._embeddings.embed([task.main_query for task in different]))
            kept = np.concatenate([rows[:0] if self._vectors is None else self._vectors, rows])
        except (TrainingError, ValueError) as error:  # ValueError: they are of different lengths
            raise TrainingError(
                f"near-duplicates are found by embeddings, and there are none: {error}. Name a model of "
                f"embeddings in {_FILTER}.params (model, base_url, api_key), or set {_FILTER}.enabled: false"
            ) from None
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        count, new = len(kept) - len(rows), []
        for task, row in zip(different, rows, strict=True):
            if (kept[:count] @ row).max(initial=-1.0) < self._threshold:
                kept[count] = row
                count += 1
                new.append(task)
        self._vectors = kept[:count]
        return new


def _plain(task: Task) -> str:
    return " ".join(task.main_query.casefold().split())
