"""The rollout of a training whose episodes the clients of a swarm run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from trainer_core.backbone.rollouts import abnormal_answers, longest_context
from trainer_core.backbone.schedule import longest_response
from trainer_core.engine.protocols import Engines
from trainer_core.gateway import EpisodeRules
from trainer_core.rollout.protocol import Rollout
from trainer_core.swarm.gate import Gate, SwarmRollout
from trainer_core.swarm.training import SOCKET
from trainer_core.types import Sampling, TrainingError

if TYPE_CHECKING:
    from trainer_core.backbone.run import Run


def open_swarm(
    run: Run, engines: Engines, closing: ExitStack, safe_point: Callable[[], None]
) -> tuple[Rollout, Callable[[str], None]]:
    """The rollout, and what is to be told of each phase of a step. `closing` ends what the server asks.

    Raises:
        TrainingError: no swarm server has started this training.
    """
    if (path := os.environ.get(SOCKET)) is None:
        raise TrainingError(
            "ajet.enable_swarm_mode: the episodes come from a swarm server, which starts the training. Type "
            "`ajet-swarm start --conf FILE`, and have a client call start_engine"
        )
    ajet, chosen = run.ajet, run.ajet.rollout
    evaluated, most = chosen.val_kwargs, chosen.multi_turn.max_steps
    temperature = evaluated.temperature if evaluated.do_sample else 0.0
    sampled = {
        "train": Sampling(chosen.temperature, chosen.top_p, chosen.top_k),
        "eval": Sampling(temperature, evaluated.top_p, evaluated.top_k),
    }
    rules = {
        kind: EpisodeRules(
            sampling,
            longest_response(ajet),
            ajet.trainer_common.seed,
            client_sampling=kind == "eval",
            max_calls=most,
        )
        for kind, sampling in sampled.items()
    }
    gate = Gate(
        engines.inference,
        run.tokenizer,
        rules,
        abnormal_answers(ajet, run.tokenizer),
        saved=lambda: run.checkpoints.last_step,
        model=Path(ajet.model.path).name,
        max_model_len=longest_context(ajet, engines),
        socket_path=Path(path),
    )
    closing.enter_context(gate)
    return SwarmRollout(gate, safe_point=safe_point, on_evaluated=run.evaluated), gate.doing
