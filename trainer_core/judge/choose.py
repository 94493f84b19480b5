"""From `ajet.task_judge` to the judge of a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trainer_core.judge.answers import AnswerJudge, boxed, countdown, numeric, regex
from trainer_core.judge.judge import (
    EnvironmentJudge,
    EnvServiceJudge,
    ExactMatchJudge,
    Judge,
    UnlessBrought,
    load_judge,
)
from trainer_core.judge.pairwise import PairwiseJudge
from trainer_core.judge.rubrics import RubricsJudge
from trainer_core.outside_model import OutsideModel

if TYPE_CHECKING:
    from trainer_core.config.tasks import TaskJudge

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
    outside_model = partial(
        OutsideModel, settings.alien_llm_model, max_tokens=settings.alien_llm_response_length
    )

    def of_users() -> Judge:
        if settings.judge_protocol == ENV_SERVICE:
            return EnvServiceJudge() if is_named(settings) else EnvironmentJudge()
        return load_judge(settings.judge_protocol, own_thread=own_thread, outside_model=outside_model)

    def by_rubrics() -> Judge:
        grader = settings.rubrics_auto_grader
        file = None if folder is None else folder / "rubrics.json"
        return RubricsJudge(OutsideModel(grader.model_name), grader, file=file)

    makers: dict[str, Callable[[], Judge]] = {
        "exact_match": ExactMatchJudge,
        "boxed": lambda: AnswerJudge("boxed", boxed),
        "numeric": lambda: AnswerJudge("numeric", numeric(settings.tolerance)),
        "regex": lambda: AnswerJudge("regex", regex(settings.pattern)),
        "countdown": lambda: AnswerJudge("countdown", countdown),
        "environment": EnvironmentJudge,
        "pairwise": lambda: PairwiseJudge(outside_model(), settings.criteria),
        "rubrics_auto_grader": by_rubrics,
        "customized_protocol": of_users,
    }
    return makers[settings.judge_type]()
