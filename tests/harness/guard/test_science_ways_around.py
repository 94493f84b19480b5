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

ANCHOR = "shared: &s {steps_per_log: 1, timeout: 5}\ntrain: {timeout_s: 1}\noptim: *s\n"
MERGED = "base: &b {timeout: 1, lr: 1}\nrun: {<<: *b}\noptim: {<<: *b}\n"
DOTTED, DOTTED_BELOW = "trainer.num_workers: 4\n", "a: {trainer.num_workers: 4}\n"
SEQS = "ajet.rollout.max_num_seqs"
REFERENCES = "max_num_seqs: 8\nlogging_steps: 1\nmax_len: ${max_num_seqs}\nsave_steps: ${.logging_steps}\n"
SECTIONS = ("ajet.model", "ajet.data", "ajet.trainer_common.optim")
SPELLINGS = ("ajet.trainer_common.optim.LR", "ajet.Trainer_Common.optim.lr", "AJET.model.path")
NO_KEYS = ("", ".", "ajet.", ".lr", "a..b", "<<", "a: b", "a\nlr", "*x", "ajet.rollout.name ", "lr", "${x}.y")
UNREADABLE = ("a: [\n", "- 1\n", "a: 1\na: 2\n", "a: &a\n  b: *a\n")
REFUSED: list[tuple[str, dict[str, Scalar], tuple[str, ...], str]] = [
    (ANCHOR, {"shared.timeout": 6}, (), ""),  # it stands below optim as well
    (MERGED, {"base.timeout": 2}, (), "`optim.timeout`"),
    *((AJET, {}, (parent,), "") for parent in ("ajet", "ajet.trainer_common", "verl", *SECTIONS)),
    *((AJET, {parent: value}, (), "") for parent in SECTIONS for value in (None, 1, "x")),
    *((AJET, {key: 1}, (), "") for key in SPELLINGS),
    ('"optim.lr": 1\nrun: {timeout: 3}\n', {"optim.lr": 2}, (), ""),
    *(("optim: {lr: 1}\n", {key: 3}, (), "") for key in NO_KEYS),
    (DOTTED, {"trainer.num_workers": 2}, (), "one key with dots"),
    (DOTTED, {}, ("trainer.num_workers",), "one key with dots"),
    (DOTTED_BELOW, {"a.trainer.num_workers": 2}, (), "one key with dots"),
    (DOTTED_BELOW, {}, ("a.trainer.num_workers",), "one key with dots"),
    (REFERENCES, {"max_num_seqs": 64}, (), "`max_len`"),
    (AJET.replace("seed: 0", "seed: ${..rollout.max_num_seqs}"), {SEQS: 16}, (), "seed"),
    ("runs:\n- {lr: 1, timeout: 3}\n", {"runs.0.lr": 2}, (), ""),
    ("runs:\n- {lr: 1, timeout: 3}\n", {"runs": "x"}, (), ""),
    ("optim: {verbose: 1}\n", {"optim.verbose": 2}, (), ""),
    ("base: &b {timeout: 1}\nrun: {<<: *b}\n", {}, ("base.timeout",), "set it instead"),
    *((text, {"timeout": 2}, (), "cannot be made") for text in UNREADABLE),
]


@pytest.mark.parametrize(("text", "changes", "remove", "why"), REFUSED)
def test_ways_to_change_the_science_without_naming_its_key(
    text: str, changes: dict[str, Scalar], remove: tuple[str, ...], why: str
) -> None:
    refusal = refuse_edit(text, changes, remove, ())
    assert refusal is not None and why in refusal


@pytest.mark.parametrize(
    ("text", "key"), [(ANCHOR, "train.timeout_s"), (MERGED, "run.timeout"), (REFERENCES, "logging_steps")]
)
def test_what_changes_nothing_else_is_allowed(text: str, key: str) -> None:
    assert refuse_edit(text, {key: 6}, (), ()) is None


def test_a_protected_key_is_not_changed_through_its_alias_or_what_it_follows() -> None:
    aliased = "a: &a {num_workers: 1}\nb: *a\n"
    assert "protected" in str(refuse_edit(aliased, {"a.num_workers": 2}, (), ("b.num_workers",)))
    following = refuse_edit(REFERENCES, {"logging_steps": 5}, (), ("save_steps",))
    assert following is not None and "protected" not in following


_KEYS = """ajet.rollout.max_num_seqs ajet.rollout.temperature ajet.trainer_common.optim.lr ajet.model.path
    ajet.trainer_common ajet.model ajet.trainer_common.fsdp_config.param_offload extra.max_num_seqs
    ajet.rollout.num_repeat ajet.trainer_common.nnodes verl.trainer.nnodes verl.algorithm.gamma
    ajet.rollout extra verl.actor.lr ajet.data.train_batch_size"""
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
    st.dictionaries(st.sampled_from(_KEYS.split()), _SCALARS, max_size=3),
    st.lists(st.sampled_from(_KEYS.split()), max_size=2),
    st.lists(st.sampled_from(_KEYS.split()), max_size=1),
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
    st.dictionaries(st.sampled_from(_FOREIGN_KEYS), st.sampled_from([1, 2, 4, 8, 16]) | _SCALARS, max_size=3),
    st.lists(st.sampled_from(_FOREIGN_KEYS), max_size=2),
)
def test_nor_in_a_foreign_config(text: str, changes: dict[str, Scalar], remove: list[str]) -> None:
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
        if value.kind not in ("null", "map")
        and path[-1] not in but
        and (not keys.meaning(path, is_ajet).is_free or keys.is_protected(path, protected))
    }
