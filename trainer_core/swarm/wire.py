"""What requests to a swarm server and its answers look like; server and clients share these.

The names are those of AgentJet's protocol, so that its clients work unchanged; fields that it does not have
are marked *ours* and have a default. Unknown fields are ignored.
"""

from __future__ import annotations

from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from trainer_core.types import check_reward

PORT = 10086
CAPABILITIES = ("long_poll", "idempotent_end", "eval_weight_version", "throttle", "agree_sync_weight")
"""What this server can do that the first of its kind could not."""
LONGEST_WAIT_S = 60.0
"""Of a long poll."""


def _sane(rewards: float | list[float] | None) -> float | list[float] | None:
    for reward in rewards if isinstance(rewards, list) else [] if rewards is None else [rewards]:
        check_reward(reward, "a reward is")
    return rewards


def _mean(given: float | list[float]) -> float:
    return fmean(given) if isinstance(given, list) else given


def _mapping(given: Any) -> Any:
    return given if isinstance(given, dict) else {}


Id = Annotated[str, Field(min_length=1, max_length=4096)]
Metric = Annotated[float | Annotated[list[float], Field(min_length=1)], AfterValidator(_mean)]
Wait = Annotated[float, Field(ge=0, le=LONGEST_WAIT_S)]


class Body(BaseModel):
    """The base of all of them."""

    model_config = ConfigDict(extra="ignore")


class Output(Body):
    """What came of an episode, as an agent reports it."""

    reward: Annotated[float | list[float] | None, AfterValidator(_sane)] = None
    """Several numbers count as their mean."""
    is_success: bool | None = None
    """None: solved when the reward is 1 or more."""
    metadata: dict[str, Any] = {}
    log_metrics: dict[str, Metric] = {}
    """Several numbers count as their mean."""


class Throttle(Body):
    """How much of a batch one client may fill, where several share it."""

    throttle_method: Literal["Task_Ratio_Limit"] = "Task_Ratio_Limit"
    ratio: Annotated[float, Field(gt=0)] = 1.5
    expected_batch_size: Annotated[int, Field(gt=0)]
    expected_num_repeat: Annotated[int, Field(gt=0)] = 1
    current_task_id: str = ""


class Claim(Body):
    """Of `/claim_episode`."""

    client_uuid: Id
    episode_type: Literal["train", "eval"] = "train"
    discard_episode_timeout: Annotated[float, Field(gt=0, le=1e6)] = 240.0
    """Seconds without a request to the model after which the episode is taken away."""
    throttle_policy: Throttle | None = None
    wait_s: Wait = 0.0
    """Ours: answer when there is an episode, at the latest after so many seconds."""


class AboutTask(Body):
    """Of a task, for the records."""

    main_query: Annotated[str, BeforeValidator(str)] = ""
    metadata: Annotated[dict[str, Any], BeforeValidator(_mapping)] = {}


class Ended(Body):
    """Of `/end_episode` and `/abort_episode`."""

    client_uuid: Id
    episode_uuid: Id
    workflow_output: Output = Output()
    task_id: str = ""
    declare_client_active: bool = True
    """False: the client need not agree where all active clients have to."""
    task: AboutTask = AboutTask()
    """Ours."""


class OfEpisode(Body):
    """Of `/can_continue_episode` and `/is_episode_claimed`; the second needs no client."""

    client_uuid: str = ""
    episode_uuid: Id


class TrainConfig(Body):
    """Of `/sync_train_config`."""

    yaml_as_string: str


class OfClient(Body):
    """Of `/agree_sync_weight`."""

    client_uuid: Id


class Nothing(Body):
    """Of requests that say nothing."""
