"""Experiments that no repair may or can save: `HOPELESS` end badly with their config untouched, `FORESEEN`
are refused before anything is launched."""

from harness.state import Outcome
from tests.faults.lab.whole.circumstances import (
    BATCH,
    KL_IS_OWED,
    LITTLE_MEMORY,
    SCIENCE,
    data,
    out_of_rights,
    own_environment,
)
from tests.faults.lab.whole.types import Experiment

HOPELESS = (
    Experiment("column_missing", "column.py", SCIENCE + "prompt_key: prompt\n", "dataset_error", world=data),
    Experiment("reward_bug", "reward_bug.py", SCIENCE, "reward_fn_error"),
    Experiment(
        "micro_batch_protected",
        "batch_memory.py",
        SCIENCE + BATCH,
        "host_oom",
        command=LITTLE_MEMORY,
        more="\n## [exp_protected_keys]\n- per_device_train_batch_size\n- gradient_accumulation_steps\n",
    ),
    Experiment("prompt_too_long", "too_long.py", SCIENCE + "max_prompt_length: 512\n", "length_limit"),
    Experiment(
        "diverged_silently",
        "diverges.py",
        SCIENCE.replace("1.0e-5", "1.0e+30").replace("max_steps: 6", "max_steps: 40"),
        "numerics_nan",
    ),
    Experiment(
        "reward_always_zero",
        "worthless.py",
        SCIENCE.replace("max_steps: 6", "max_steps: 40"),
        "silent_bad_metrics",
    ),
    Experiment(
        "package_missing_without_permission",
        "packaged.py",
        SCIENCE,
        "module_not_found",
        world=own_environment,
        command="python train.py",
    ),
    Experiment("data_missing", "no_data.py", SCIENCE + "train_file: data/train.jsonl\n", "path_not_found"),
    Experiment(
        "misspelt_science", "strict.py", "seed: 7\nlearning_rat: 1.0e-5\nmax_steps: 6\n", "config_error"
    ),
    Experiment(
        "judge_without_key", "judged.py", SCIENCE + "judge:\n  url: {url}\n", "auth", world=out_of_rights
    ),
    Experiment(
        "hangs_before_its_first_step",
        "hangs.py",
        SCIENCE + "after: 0\n",
        "hang_no_output",
        first_step="8 seconds",
        more=KL_IS_OWED,
    ),
    Experiment(
        "longer_than_its_time",
        "hangs.py",
        SCIENCE + "after: 2\n",
        "time_limit",
        max_time="8 seconds",
        first_step="6 seconds",
        outcome=Outcome.TIMED_OUT,
    ),
)

FORESEEN = (
    Experiment(
        "package_missing_at_the_top",
        "packaged_at_the_top.py",
        SCIENCE,
        "module_not_found",
        world=own_environment,
        command="python train.py",
        told="imports einops",
    ),
    Experiment(
        "yaml_with_a_tab",
        "steady.py",
        "seed: 7\noptim:\n\tlr: 1.0e-5\n",
        "config_error",
        told="found character",
    ),
)
