"""The table of keys: one role for each, only what is listed is free, and thirty keys judged by hand."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config import keys
from harness.config.keys import meaning, nearest_own_key, parameter
from trainer_core.config import concerns
from trainer_core.config.keys import all_keys

ROLES = ("science", "resource", "path", "cosmetic")
OWN = sorted(keys.own_keys())
BY_HAND = {
    "free": """
        actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu actor_rollout_ref.rollout.gpu_memory_utilization
        actor_rollout_ref.model.use_remove_padding trainer.n_gpus_per_node dataloader_num_workers data.cache
        save_total_limit train.perDeviceEvalBatchSize
        trainer.strategy reward_model.micro_batch_size_per_gpu""",
    "limited": "device resume trainer.logger report_to wandb.mode",
    "science": """
        actor_rollout_ref.rollout.temperature actor_rollout_ref.rollout.n algorithm.anything_new bf16 packing
        Learning-Rate data.max_prompt_length seeds.[0] env.max_env_worker judge.strategy
        train/lr num_generations""",
    "path": """
        actor_rollout_ref.model.path output_dir hub_token deepspeed callback._target_ run_name
        ray_kwargs.ray_init.runtime_env.env_vars.LD_PRELOAD""",
    "unknown": "actor_rollout_ref.rollout.ignore_eos lr0 mosaic critic.enable",
}


def _path(key: str) -> tuple[str, ...]:
    return tuple(key.split("."))


@pytest.mark.parametrize("group", sorted(BY_HAND))
def test_keys_of_other_trainers_are_what_a_person_says(group: str) -> None:
    for key in BY_HAND[group].split():
        for found in (meaning(_path(key), is_ajet=False), meaning(("verl", *_path(key)), is_ajet=True)):
            if group in ("free", "limited"):
                assert found.role in ("resource", "cosmetic"), key
                assert found.is_free == (group == "free"), key
            else:
                assert found.role == group, key


LIMITED = {
    "resume": [("", "auto", True), ("true", "false", False)],
    "device": [("cuda:0", "cpu", True), ("cuda:0,1", "cpu", False)],
    "report_to": [("wandb", "None ", True), ("none", "wandb", False)],
    "push_to_hub": [("false", "true", False)],
    "save_steps": [("1", "9", True)],
}


@pytest.mark.parametrize("key", LIMITED)
def test_limited_keys_only_go_one_way(key: str) -> None:
    for old, new, is_allowed in LIMITED[key]:
        assert meaning((key,), is_ajet=False).allows(old, new) == is_allowed, (old, new)


def test_the_export_of_the_trainers_schema_is_fresh() -> None:
    shipped = Path(keys.__file__).with_name("trainer_keys.json").read_text(encoding="utf-8")
    how = "python -m trainer_core.config.concerns harness/config/trainer_keys.json"
    assert shipped == concerns.as_json(), how


def test_every_key_of_the_trainer_has_one_role_and_no_other_key_has_any() -> None:
    known = [key.path for key in all_keys().values() if key.path.startswith("ajet.") and not key.is_section]
    assert len(known) > 150 and sorted(known) == OWN
    assert set(keys.short_names().values()) <= set(OWN)
    assert {meaning(_path(key), is_ajet=True).role for key in OWN} == set(ROLES)
    every = [concern for names in concerns.ROLES.values() for concern in names]
    assert len(every) == len(set(every)), "no concern has two roles"
    assert {meaning(_path(key), is_ajet=True).about for key in OWN} == set(every)


@given(st.sampled_from(OWN), st.text("abcdefgh_", min_size=1, max_size=8))
def test_a_key_that_the_trainer_does_not_know_is_unknown_and_has_a_neighbour(key: str, more: str) -> None:
    wrong = f"{key}{more}"
    if wrong not in OWN and f"{wrong}." not in "".join(OWN):
        assert meaning(_path(wrong), is_ajet=True).role == "unknown"
    assert nearest_own_key(f"{key}x") in OWN


@given(st.sampled_from(OWN))
def test_a_section_is_as_grave_as_the_gravest_key_in_it(key: str) -> None:
    section, order = key.rpartition(".")[0], ("science", "path", "cosmetic", "resource")
    below = [meaning(_path(other), True).role for other in OWN if other.startswith(f"{section}.")]
    assert meaning(_path(section), True).role == min(below, key=order.index)


@given(st.data())
def test_what_the_tables_free_is_free_unless_it_sounds_like_a_path(data: st.DataObject) -> None:
    table = keys._table()  # the rows themselves are what is tested
    rows = [row for group in ("anywhere", "resource", "cosmetic") for row in table[group]]
    row = re.compile(data.draw(st.sampled_from(rows)), re.ASCII)
    name = data.draw(st.from_regex(row, fullmatch=True).filter(str.isidentifier))
    role = meaning((name,), is_ajet=False).role
    paths = {word for family in table["path"] for word in family.get("words", ())}
    assert role in ("resource", "cosmetic", "path") or paths & set(keys.last_name((name,)).split("_")), name


def test_below_a_section_of_science_nothing_unlisted_is_free() -> None:
    for family in keys._table()["science"]:
        for section in family.get("sections", ()):
            assert meaning((section, "anything_at_all"), is_ajet=False).role == "science", section


@given(st.sampled_from(sorted(keys.parameters())))
def test_parameters_know_their_own_spellings(name: str) -> None:
    found = parameter(name)
    assert all(found.is_at(key) for key in found.spellings)
    assert set(found.defaults) | set(found.needs) <= {"ajet", "verl", "huggingface"}
    assert all(found.defaults[tree] is not None or tree in found.keys for tree in found.defaults)


def test_protected_keys_cover_what_lies_below_and_what_leaves_out_its_beginning() -> None:
    protected = ("algorithm.*", "rollout.n", "LR")
    assert keys.is_protected(("algorithm", "kl_ctrl", "coef"), protected) == "algorithm.*"
    assert keys.is_protected(("actor_rollout_ref", "rollout", "n"), protected) == "rollout.n"
    assert keys.is_protected(("optim", "lr"), protected) == "LR"
    assert keys.is_protected(("algorithm",), ("algorithm.kl",)) == "algorithm.kl"
    assert keys.is_protected(("rollout", "name"), protected) is None


def test_spelling_and_place_do_not_hide_a_key() -> None:
    assert keys.named_segments(("Train/Opt.LR", "[3]", "per-Device")) == ("train", "opt", "lr", "per_device")
    assert meaning(("ajet", "Rollout", "Temperature"), is_ajet=True).role == "science"
    assert meaning(("ajet.rollout.temperature",), is_ajet=True).about == "sampling"
    assert meaning(("hydra", "searchpath"), is_ajet=True).role == "path"
    assert meaning(("ajet", "teacher_model", "temperature"), is_ajet=True).role == "science"
    assert not keys.is_read_by_local("ajet.rollout.max_num_seqs") and keys.is_read_by_local("ajet.data.x")
