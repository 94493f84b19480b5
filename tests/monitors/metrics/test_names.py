"""What names say: directions, validations, and which metric leads."""

from __future__ import annotations

import pytest

from monitors.metrics.names import direction, is_validation, leading

LESS = (
    "loss val_loss train-rmse valid_0's_l2 box_loss loss_cls train_loss_epoch avg._loss actor/pg_loss "
    "ppl error_rate fid test/average_loss lm_loss_value nll_loss"
)
MORE = (
    "eval_accuracy val/task_pass_rate@1 acc@1 acc@5 rewards/accuracies metrics/map50-95(b) "
    "critic/rewards/mean rouge-l ep_rew_mean val-core/x/acc/mean@1 "
    "top-5 f1-score val_dice_coef success_rate accuracy/top1"
)
UNKNOWN = (
    "lr learning_rate grad_norm reward_std loss_scale loss_weight kl actor/kl_loss entropy ep_len_mean "
    "clip_ratio train_runtime eval_samples_per_second epoch gpu_mem foo"
)


@pytest.mark.parametrize(
    ("names", "better"), [(LESS, "min"), (MORE, "max"), (UNKNOWN, None)], ids=["less", "more", "unknown"]
)
def test_directions(names: str, better: str | None) -> None:
    assert {name: direction(name) for name in names.split()} == dict.fromkeys(names.split(), better)


def test_validations() -> None:
    assert all(
        map(
            is_validation,
            ["val_loss", "eval/acc", "test-rmse", "valid_1's_auc", "val-core/x", "dev_f1", "best_val_acc"],
        )
    )
    assert not any(
        map(is_validation, ["loss", "train_acc", "evaluate", "interval", "latest_loss", "eval_steps"])
    )


@pytest.mark.parametrize(
    ("names", "wanted", "leads"),
    [
        ("loss grad_norm eval_loss eval_accuracy", "", "eval_accuracy"),
        ("loss acc val_loss", "", "val_loss"),
        ("loss reward kl", "", "reward"),
        ("loss lr", "", "loss"),
        ("lr norm", "", None),
        ("last_reward average_reward", "", "average_reward"),
        ("loss reward rewards/length/mean", "", "reward"),
        ("loss_d loss_g fid", "", "fid"),
        ("loss eval_loss eval_accuracy", "How low does the validation loss get?", "eval_loss"),
        ("loss val/acc val_loss", "Does a larger rate raise the accuracy?", "val/acc"),
        ("loss val_loss", "Watch the training loss", "loss"),
        ("loss val_loss my_number", "my_number", "my_number"),
        ("loss val_loss my_number", "We want my_number to go up.", "my_number"),
        ("val/task_pass_rate@1 val/mean_reward actor/pg_loss", "", "val/task_pass_rate@1"),
        (
            "loss reward",
            "GRPO of TRL: what does an entropy bonus do? The objective is to see its cost.",
            "reward",
        ),
    ],
)
def test_leading(names: str, wanted: str, leads: str | None) -> None:
    assert leading(names.split(), wanted) == leads
