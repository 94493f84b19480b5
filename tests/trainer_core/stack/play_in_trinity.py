"""What a runner of Trinity's does with our workflow, in Trinity's interpreter: `FOLDER ADDRESS MODEL TASKS`.

Prints the experiences as JSON, and the advantages that Trinity gives them.
"""

import asyncio
import json
import sys
from types import SimpleNamespace

from trinity.algorithm import ADVANTAGE_FN
from trinity.buffer.reader.file_reader import TaskFileReader
from trinity.common.config import load_config
from trinity.common.experience import Experience

folder, address, model, split = sys.argv[1:]
config = load_config(f"{folder}/trinity.yaml")
inputs = config.buffer.explorer_input
taskset = inputs.taskset if split == "train" else inputs.eval_tasksets[0]
taskset.batch_size, taskset.is_eval = 1, split != "train"
reader = TaskFileReader(taskset.to_storage_config())
(task,) = reader._read_sync(1)
# Trinity's own wrapper is not importable without vLLM; this is what our workflow reads of it
workflow = task.to_workflow(SimpleNamespace(api_address=address, model_path=model))
workflow.set_repeat_times(taskset.repeat_times if taskset.is_eval else config.algorithm.repeat_times, 10)
made = asyncio.run(workflow.run_async())
made = Experience.deserialize_many(Experience.serialize_many(made))  # as they reach the trainer
if not taskset.is_eval:
    made, _ = ADVANTAGE_FN.get("step_wise_grpo")().process(made)
told = [
    {
        "ids": each.tokens.tolist(),
        "prompt": each.prompt_length,
        "trained": each.action_mask.tolist(),
        "logprobs": each.logprobs.tolist(),
        "reward": each.reward,
        "run": each.eid.run,
        "metrics": each.metrics,
        "advantages": None if each.advantages is None else each.advantages.tolist(),
    }
    for each in made
]
print(json.dumps(told))
