"""What the experiments share: parts of configs and blueprints, and what each of them meets."""

import signal

from tests.faults.lab.whole.types import Values
from tests.faults.lab.whole.world import World

SCIENCE = "seed: 7\nlearning_rate: 1.0e-5\nmax_steps: 6\n"
BATCH = "per_device_train_batch_size: 8\ngradient_accumulation_steps: 1\nmax_length: 512\n"
KL_IS_OWED = "\n## [exp_metrics]\n- pattern: `step:(?P<step>\\d+) - actor/kl_loss:(?P<kl>[\\d.]+)`\n"
LITTLE_MEMORY = "ulimit -v 350000\npython train.py config.yaml"


def taken_port(world: World) -> Values:
    return {"port": str(world.taken_port())}


def port_taken_at_launch(world: World) -> Values:
    return {"port": str(world.port_taken_at_launch())}


def overloaded(world: World) -> Values:
    return {"url": world.judge(200, 200, 503)}


def too_many(world: World) -> Values:
    return {"url": world.judge(200, 200, 429)}


def hangs_up(world: World) -> Values:
    return {"url": world.judge(200, 200, 0)}


def out_of_rights(world: World) -> Values:
    return {"url": world.judge(200, 200, *[401] * 40)}


def killed(world: World) -> Values:
    world.killer(signal.SIGKILL, "step:3 -")
    return {}


def terminated(world: World) -> Values:
    world.killer(signal.SIGTERM, "step:3 -")
    return {}


def small_disk(world: World) -> Values:
    world.small_disk("outputs", 4)
    return {}


def wheels(world: World) -> Values:
    return {"python": str(world.environment()), "wheels": str(world.wheel("einops", "0.8.1"))}


def own_environment(world: World) -> Values:
    return {"python": str(world.environment())}


def data(world: World) -> Values:
    rows = '{"question": "2+2", "answer": "4"}\n' * 4
    (world.bench.codebase / "train.jsonl").write_text(rows)
    return {}


def few_processes(world: World) -> Values:
    return {"group": str(world.process_group(40))}
