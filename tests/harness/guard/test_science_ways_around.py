"""No edit changes what is studied without naming it: by anchors, parents, twins, references, or at random."""

import math
from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config import edit as config_edit
from harness.config import keys, readings
from harness.config.edit import Scalar
from harness.guard.science import refuse_edit
from tests.harness.guard.test_science import AJET


class TestTheWaysAround:
    """Each of these changes the science without naming its key."""

    def test_an_anchor_that_a_harmless_key_shares(self) -> None:
        text = "shared: &s {steps_per_log: 1, timeout: 5}\ntrain: {timeout_s: 1}\noptim: *s\n"
        assert refuse_edit(text, {"shared.timeout": 6}, (), ()) is not None, "it stands below optim as well"
        assert refuse_edit(text, {"train.timeout_s": 6}, (), ()) is None

    def test_a_mapping_that_is_merged_elsewhere(self) -> None:
        text = "base: &b {timeout: 1, lr: 1}\nrun: {<<: *b}\noptim: {<<: *b}\n"
        assert "`optim.timeout`" in str(refuse_edit(text, {"base.timeout": 2}, (), ()))
        assert refuse_edit(text, {"run.timeout": 2}, (), ()) is None, "an own key changes only this mapping"

    @pytest.mark.parametrize(
        "parent", ["ajet", "ajet.model", "ajet.trainer_common", "ajet.trainer_common.optim", "verl"]
    )
    def test_taking_out_a_parent(self, parent: str) -> None:
        assert refuse_edit(AJET, {}, (parent,), ()) is not None

    @pytest.mark.parametrize("parent", ["ajet.model", "ajet.data", "ajet.trainer_common.optim"])
    def test_replacing_a_section_by_a_value_or_an_empty_one(self, parent: str) -> None:
        for value in (None, 1, "x"):
            assert refuse_edit(AJET, {parent: value}, (), ()) is not None

    def test_a_second_spelling_of_the_same_key(self) -> None:
        for key in ("ajet.trainer_common.optim.LR", "ajet.Trainer_Common.optim.lr", "AJET.model.path"):
            assert refuse_edit(AJET, {key: 1}, (), ()) is not None

    def test_a_key_with_dots_inside(self) -> None:
        text = '"optim.lr": 1\nrun: {timeout: 3}\n'
        assert refuse_edit(text, {"optim.lr": 2}, (), ()) is not None

    @pytest.mark.parametrize(
        "key",
        ["", ".", "ajet.", ".lr", "a..b", "<<", "a: b", "a\nlr", "*x", "ajet.rollout.name ", "lr", "${x}.y"],
    )
    def test_keys_that_are_no_keys(self, key: str) -> None:
        assert refuse_edit("optim: {lr: 1}\n", {key: 3}, (), ()) is not None

    def test_a_key_with_dots_gets_no_nested_twin(self) -> None:
        for text in ("trainer.num_workers: 4\n", "a: {trainer.num_workers: 4}\n"):
            key = "a.trainer.num_workers" if text.startswith("a") else "trainer.num_workers"
            assert "one key with dots" in str(refuse_edit(text, {key: 2}, (), ()))
            assert "one key with dots" in str(refuse_edit(text, {}, (key,), ()))

    def test_a_science_key_that_takes_its_value_from_a_harmless_one(self) -> None:
        text = (
            "max_num_seqs: 1024\nlogging_steps: 1\nmax_len: ${max_num_seqs}\nsave_steps: ${.logging_steps}\n"
        )
        assert "`max_len`" in str(refuse_edit(text, {"max_num_seqs": 64}, (), ()))
        assert refuse_edit(text, {"logging_steps": 5}, (), ()) is None, "what follows it is no science"
        assert "protected" not in str(refuse_edit(text, {"logging_steps": 5}, (), ("save_steps",)))
        assert refuse_edit(text, {"logging_steps": 5}, (), ("save_steps",)) is not None
        ajet = AJET.replace("seed: 0", "seed: ${..rollout.max_num_seqs}")
        assert "seed" in str(refuse_edit(ajet, {"ajet.rollout.max_num_seqs": 16}, (), ()))

    def test_an_entry_of_a_list(self) -> None:
        text = "runs:\n- {lr: 1, timeout: 3}\n"
        assert refuse_edit(text, {"runs.0.lr": 2}, (), ()) is not None
        assert refuse_edit(text, {"runs": "x"}, (), ()) is not None

    def test_a_science_key_that_a_harmless_name_hides_in_a_section(self) -> None:
        assert refuse_edit("optim: {verbose: 1}\n", {"optim.verbose": 2}, (), ()) is not None

    def test_a_protected_key_through_its_alias(self) -> None:
        text = "a: &a {num_workers: 1}\nb: *a\n"
        assert "protected" in str(refuse_edit(text, {"a.num_workers": 2}, (), ("b.num_workers",)))

    def test_a_merged_key_is_not_taken_out(self) -> None:
        text = "base: &b {timeout: 1}\nrun: {<<: *b}\n"
        assert "set it instead" in str(refuse_edit(text, {}, ("base.timeout",), ()))

    def test_a_config_that_cannot_be_read_is_not_edited(self) -> None:
        for text in ("a: [\n", "- 1\n", "a: 1\na: 2\n", "a: &a\n  b: *a\n"):
            assert "cannot be made" in str(refuse_edit(text, {"timeout": 2}, (), ()))


_KEYS = [
    *(
        "ajet.rollout.max_num_seqs",
        "ajet.rollout.temperature",
        "ajet.trainer_common.optim.lr",
        "ajet.model.path",
    ),
    *(
        "ajet.trainer_common",
        "ajet.model",
        "ajet.trainer_common.fsdp_config.param_offload",
        "extra.max_num_seqs",
    ),
    *("ajet.rollout.num_repeat", "ajet.trainer_common.nnodes", "verl.trainer.nnodes", "verl.algorithm.gamma"),
    *("ajet.rollout", "extra", "verl.actor.lr", "ajet.data.train_batch_size"),
]
_SMALL = """\
ajet: &all
  model: {path: tiny}
  rollout: &r {temperature: 0.9, max_num_seqs: 64}
  trainer_common: {nnodes: 1, optim: {lr: 3e-4}}
"""
_TEXTS = [
    _SMALL,
    _SMALL + "extra: *r\n",
    _SMALL + "verl: *all\n",
    "extra: &e {max_num_seqs: 2, lr: 1}\najet:\n  rollout:\n    <<: *e\n    temperature: 1\n  model: *e\n",
]
_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(_TEXTS),
    st.dictionaries(st.sampled_from(_KEYS), _SCALARS, max_size=3),
    st.lists(st.sampled_from(_KEYS), max_size=2),
    st.lists(st.sampled_from(_KEYS), max_size=1),
)
def test_no_accepted_edit_changes_what_is_studied(
    text: str, changes: dict[str, Scalar], remove: list[str], protected: list[str]
) -> None:
    if refuse_edit(text, changes, remove, protected) is not None:
        return
    after = config_edit.edit(text, changes, remove)
    assert _studied(after, protected) == _studied(text, protected)


_FOREIGN_KEYS = [
    *("per_device_train_batch_size", "gradient_accumulation_steps", "num_gpus", "learning_rate", "timeout_s"),
    *("optim.lr", "optim.timeout_s", "run", "run.timeout_s", "optim", "other.num_workers", "seed", "name"),
]
_FOREIGN_TEXTS = [
    "per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\nlearning_rate: 1\nseed: 0\n",
    "run: &r {timeout_s: 1, lr: 3}\noptim: *r\nother: {<<: *r, num_workers: 2}\n",
    "per_device_train_batch_size: 4\nnum_gpus: 2\nrun: {timeout_s: 1}\noptim: {lr: 1}\n",
]
_BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_gpus")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(_FOREIGN_TEXTS),
    st.dictionaries(
        st.sampled_from(_FOREIGN_KEYS), st.one_of(st.sampled_from([1, 2, 4, 8, 16]), _SCALARS), max_size=3
    ),
    st.lists(st.sampled_from(_FOREIGN_KEYS), max_size=2),
)
def test_nor_in_a_foreign_config_where_batches_may_be_cut_up(
    text: str, changes: dict[str, Scalar], remove: list[str]
) -> None:
    if refuse_edit(text, changes, remove, ()) is not None:
        return
    after = config_edit.edit(text, changes, remove)
    assert _studied(after, [], _BATCH) == _studied(text, [], _BATCH)
    assert _product(after) == _product(text)


def _product(text: str) -> int | None:
    """The effective batch, None where the config does not speak of one."""
    data = config_edit.load(text)
    return math.prod(int(data.get(name, 1)) for name in _BATCH) if _BATCH[0] in data else None


def _studied(
    text: str, protected: list[str], but: Collection[str] = ()
) -> dict[readings.Path, readings.Value]:
    found = readings.values(text, (1, 2))
    is_ajet = any(path[:1] == ("ajet",) for path in found)
    return {
        path: value
        for path, value in found.items()
        if not value.is_empty_section
        and path[-1] not in but
        and (not keys.meaning(path, is_ajet).is_free or keys.is_protected(path, protected))
    }
