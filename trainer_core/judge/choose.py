"""From `ajet.task_judge` to the judge of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainer_core.judge import answers
from trainer_core.judge.judge import (
    EnvironmentJudge,
    EnvServiceJudge,
    ExactMatchJudge,
    Judge,
    UnlessBrought,
    load_judge,
)

if TYPE_CHECKING:
    from trainer_core.config.tasks import TaskJudge
    from trainer_core.outside_model import OutsideModel

ENV_SERVICE = "ajet.task_judge.env_service_as_judge->EnvServiceJudge"
"""What AgentJet's configs call `EnvServiceJudge`."""


def make_judge(settings: TaskJudge, *, own_thread: bool = True, folder: Path | None = None) -> Judge:
    """The judge the config names. An episode that brings a reward from its workflow is judged only where the
    config names a judge.

    `own_thread`: where a user's `compute_reward` is called, see `OneByOne`. `folder`: where a judge keeps
    what a resumed run has to find again; None: nowhere.

    Raises:
        TrainingError: there is no such judge, or it cannot work with these settings.
    """
    judge = _named(settings, own_thread, folder)
    return judge if is_named(settings) else UnlessBrought(judge)


def is_named(settings: TaskJudge) -> bool:
    """True if the config names a judge, which then decides on every reward."""
    return bool(settings.model_fields_set & {"judge_type", "judge_protocol"})


def _named(settings: TaskJudge, own_thread: bool, folder: Path | None) -> Judge:
    from trainer_core.judge.pairwise import PairwiseJudge

    kind = settings.judge_type
    if kind == "exact_match":
        return ExactMatchJudge()
    if kind == "boxed":
        return answers.AnswerJudge(kind, answers.boxed)
    if kind == "numeric":
        return answers.AnswerJudge(kind, answers.numeric(settings.tolerance))
    if kind == "regex":
        return answers.AnswerJudge(kind, answers.regex(settings.pattern))
    if kind == "countdown":
        return answers.AnswerJudge(kind, answers.countdown)
    if kind == "environment":
        return EnvironmentJudge()
    if kind == "pairwise":
        return PairwiseJudge(_outside_model(settings)(), settings.criteria)
    if kind == "rubrics_auto_grader":
        return _rubrics(settings, folder)
    if settings.judge_protocol == ENV_SERVICE:
        return EnvServiceJudge() if is_named(settings) else EnvironmentJudge()
    return load_judge(settings.judge_protocol, own_thread=own_thread, outside_model=_outside_model(settings))


def _rubrics(settings: TaskJudge, folder: Path | None) -> Judge:
    from trainer_core.judge.rubrics import RubricsJudge, read_examples
    from trainer_core.outside_model import OutsideModel

    grader = settings.rubrics_auto_grader
    return RubricsJudge(
        OutsideModel(grader.model_name),
        grader,
        read_examples(grader),
        file=None if folder is None else folder / "rubrics.json",
    )


def _outside_model(settings: TaskJudge) -> Callable[[], OutsideModel]:
    def make() -> OutsideModel:
        from trainer_core.outside_model import OutsideModel

        return OutsideModel(settings.alien_llm_model, max_tokens=settings.alien_llm_response_length)

    return make
