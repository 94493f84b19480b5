"""An outside model derives rubrics from examples, and grades answers by them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from trainer_core.config.section import path_of
from trainer_core.judge.judge import Score, with_reference
from trainer_core.outside_model import OutsideModel
from trainer_core.outside_model.client import instructed
from trainer_core.tasks.jsonl import read_jsonl
from trainer_core.tracking.atomic import write_atomically
from trainer_core.types import DataError, Episode, Task, TrainingError

if TYPE_CHECKING:
    from trainer_core.config.tasks import RubricsGrader

_ROUNDS = 3
"""Times that the rubrics of an example may be revised."""
_log = logging.getLogger(__name__)


class Rubrics(BaseModel):
    """What a good answer does, in short statements."""

    rubrics: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)


class Grade(BaseModel):
    """What an answer is worth."""

    model_config = ConfigDict(allow_inf_nan=False)

    reason: str
    grade: float


class Places(BaseModel):
    """How several answers rank."""

    reason: str
    places: list[Annotated[int, Field(ge=1)]]


@dataclass(frozen=True)
class Example:
    """A question with a good answer and a poorer one."""

    question: str
    reference: str
    poorer: str


def read_examples(settings: RubricsGrader) -> list[Example]:
    """The rows of the file of examples. The poorer answer is the row's `answer_field` where that differs
    from the reference, else the reference of the next row, which answers another question.

    Raises:
        DataError: there is no file, or a row lacks a field.
    """
    prefix = "task_judge.rubrics_auto_grader"
    path = settings.jsonl_dataset_file.training.file_path
    if path is None:
        raise DataError(
            f"{prefix}.jsonl_dataset_file.training.file_path: rubrics are derived from examples. Name a "
            "file of rows with a question and a good answer"
        )
    found = []
    for task in read_jsonl(path_of(path)):
        row = task.metadata
        reference = row.get(settings.reference_field, task.answer)
        if not isinstance(reference, str | int | float):
            raise DataError(
                f"{path}: {task.task_id!r} has no text in {settings.reference_field!r}. Add a good "
                f"answer, or set {prefix}.reference_field"
            )
        question = str(row.get(settings.query_field, task.main_query))
        found.append((question, str(reference), row.get(settings.answer_field)))
    examples = []
    for number, (question, reference, graded) in enumerate(found):
        other = next((each for _, each, _ in found[number + 1 :] + found[:number] if each != reference), "")
        poorer = graded if isinstance(graded, str) and graded != reference else other
        examples.append(Example(question, reference, poorer))
    return examples


class RubricsJudge:
    """Grades answers by rubrics, one at a time (`pointwise`) or a group in an order (`listwise`).

    A listwise reward falls in even steps from `max_score` for the first place to `min_score` for the last,
    and its `is_success` is false, since a place says nothing about solving the task; an answer alone in its
    group is graded pointwise. Pointwise, `is_success` is true of the highest grade.

    Rubrics are derived when they are first needed: for each example some are proposed, tried on its good and
    its poorer answer, and revised until the good one gets the higher grade; those that never do so are
    dropped. They are written to `file`, where a resumed run with the same settings and examples finds them.
    """

    def __init__(self, model: OutsideModel, settings: RubricsGrader, *, file: Path | None = None) -> None:
        """`file`: where rubrics are kept; None: nowhere."""
        self.name = settings.grader_name
        self._model = model
        self._settings = settings
        self._examples = read_examples(settings)
        self._file = file
        self._rubrics: list[str] = []
        self._deriving = asyncio.Lock()

    async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
        async with self._deriving:
            if not self._rubrics:
                self._rubrics = await self._kept_or_derived()
        question = task.messages if task.init_messages else task.main_query
        answers, is_listwise = [each.output for each in episodes], self._settings.grader_mode == "listwise"
        if is_listwise and len(answers) > 1:
            rewards = await self._rank(question, answers, task.answer)
        else:
            grades = (self._grade(question, each, self._rubrics, task.answer) for each in answers)
            rewards = await asyncio.gather(*grades)
        highest = self._settings.max_score
        return [Score(reward, is_success=reward >= highest and not is_listwise) for reward in rewards]

    async def _grade(self, question: Any, answer: str, rubrics: list[str], reference: str | None) -> float:
        lowest, highest = self._settings.min_score, self._settings.max_score

        def check(found: Grade) -> str:
            fits = lowest <= found.grade <= highest
            return "" if fits else f"grade is {found.grade}, not from {lowest} to {highest}"

        data = with_reference({"task": question, "answer": answer}, reference)
        instructions = self._instructions("grade", rubrics, lowest=lowest, highest=highest)
        return (await self._model.ask(instructions, data, Grade, check)).grade

    async def _rank(self, question: Any, answers: list[str], reference: str | None) -> list[float]:
        last = len(answers)
        order = list(range(last))
        random.Random(repr(answers)).shuffle(order)

        def check(found: Places) -> str:
            fits = len(found.places) == last and max(found.places, default=0) <= last
            return "" if fits else f"places must be {last} numbers from 1 to {last}"

        data = with_reference({"task": question, "answers": [answers[index] for index in order]}, reference)
        found = await self._model.ask(self._instructions("rank", self._rubrics), data, Places, check)
        place_of = dict(zip(order, found.places, strict=True))
        lowest, highest = self._settings.min_score, self._settings.max_score
        return [highest - (highest - lowest) * (place_of[index] - 1) / (last - 1) for index in range(last)]

    def _instructions(self, name: str, rubrics: list[str], **values: Any) -> str:
        """With a prompt of the user's own in the place of ours, which is followed by the rubrics."""
        own = self._settings.custom_evaluation_prompt
        language = self._settings.language
        if isinstance(own, dict):
            if not isinstance(own.get(language), str):
                raise TrainingError(
                    f"task_judge.rubrics_auto_grader.custom_evaluation_prompt has no text for {language!r}. "
                    "Write one text, or a mapping from languages to texts"
                )
            own = own[language]
        if own is not None:
            return own + "".join(f"\n* {rubric}" for rubric in rubrics)
        return instructed(name, rubrics=rubrics, language=language, **values)

    async def _kept_or_derived(self) -> list[str]:
        settings = self._settings.model_dump(mode="json")
        about = json.dumps([settings, [vars(each) for each in self._examples]], sort_keys=True)
        digest = hashlib.sha256(about.encode()).hexdigest()
        if self._file is not None and self._file.is_file():
            kept = json.loads(self._file.read_text(encoding="utf-8"))
            if kept["derived_from"] == digest:
                _log.info("rubrics are taken from %s", self._file)
                return list(kept["rubrics"])
        rubrics = await self._derived()
        _log.info("rubrics of %s: %s", self.name, rubrics)
        if self._file is not None:
            kept = {"derived_from": digest, "rubrics": rubrics}
            write_atomically(self._file, json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
        return rubrics

    async def _derived(self) -> list[str]:
        parts = await asyncio.gather(*(self._of_example(example) for example in self._examples))
        rubrics = list(dict.fromkeys(rubric for part in parts for rubric in part))
        if not rubrics:
            raise TrainingError(
                f"judge {self.name}: no rubrics that {self._model.model} wrote tell the good answers of the "
                f"{len(self._examples)} examples from poorer ones. Choose a better model_name, or other "
                "examples"
            )
        if not self._settings.enable_categorization:
            return rubrics
        return await self._write("merge", {"rubrics": rubrics}, self._settings.categories_number)

    async def _of_example(self, example: Example) -> list[str]:
        """Rubrics by which the good answer beats the poorer one; none where no revision brings that about."""
        wanted = self._settings.query_specific_generate_number
        data: dict[str, Any] = {"task": example.question, "reference": example.reference}
        name = "propose"
        for _ in range(_ROUNDS + 1):
            rubrics = await self._write(name, data, wanted)
            good, poor = await asyncio.gather(
                self._grade(example.question, example.reference, rubrics, None),
                self._grade(example.question, example.poorer, rubrics, None),
            )
            if good > poor:
                return rubrics
            grades = {"grade_of_reference": good, "poorer": example.poorer, "grade_of_poorer": poor}
            name, data = "revise", data | grades | {"rubrics": rubrics}
        _log.warning("rubrics for %r never told the good answer from the poorer", example.question[:100])
        return []

    async def _write(self, name: str, data: Any, count: int) -> list[str]:
        """As many rubrics; where several are merged, no more."""

        def check(found: Rubrics) -> str:
            written = len(found.rubrics)
            fits = written <= count if name == "merge" else written == count
            return "" if fits else f"{written} rubrics, not {count}"

        instructions = instructed(name, count=count, language=self._settings.language)
        return (await self._model.ask(instructions, data, Rubrics, check)).rubrics
