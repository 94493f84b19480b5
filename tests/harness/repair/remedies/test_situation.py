"""Keys are found wherever they stand; defaults count where the tree has them and the backbone reads them."""

import pytest

from harness.repair.remedies.situation import Setting, Settings
from tests.harness.repair.remedies.samples import CONFIGS, QUICKSTART


def test_the_tree_is_known_by_its_keys() -> None:
    trees = {name: Settings.read(text).tree for name, text in CONFIGS.items()}
    assert trees == {**{name: name for name in CONFIGS}, "quickstart": "ajet", "plain": ""}


def test_a_key_of_the_config_comes_before_the_default() -> None:
    key = "actor_rollout_ref.rollout.gpu_memory_utilization"
    unwritten = Settings.read("actor_rollout_ref: {rollout: {n: 5}}")
    assert unwritten.of("engine_memory_share") == [Setting(key, 0.5, True)]
    written = Settings.read("actor_rollout_ref: {rollout: {gpu_memory_utilization: 0.6}}")
    assert written.of("engine_memory_share") == [Setting(key, 0.6)]


def test_what_the_backbone_does_not_read_is_left_out() -> None:
    assert Settings.read(QUICKSTART).of("engine_sequences") == []
    assert Settings.read("ajet: {backbone: verl}").of("engine_sequences")[0].value == 64
    assert Settings.read("ajet: {model: {path: tiny}}").of("engine_sequences") == [], "local is the default"


def test_a_default_counts_only_where_its_section_is_in_use() -> None:
    batch = "args: {per_device_train_batch_size: 1, use_vllm: %s}"
    names = "vllm_gpu_memory_utilization"
    assert [each.key for each in Settings.read(batch % "true").of("engine_memory_share")] == [f"args.{names}"]
    assert Settings.read(batch % "false").of("engine_memory_share") == []


@pytest.mark.parametrize("text", ["", "- 1\n", "a: [\n", "1: {2: 3}\n", "a.b: 1\n"])
def test_what_has_no_plain_keys_has_no_values(text: str) -> None:
    assert Settings.read(text).values == {}


def test_a_switch_is_no_number() -> None:
    assert Setting("a", True).number is None and Setting("a", True).whole is None
    assert Setting("a", 2).number == 2.0 and Setting("a", 0.5).whole is None
