"""Changes on the way to the next launch: however they were made, the config is the one that edits in a row
give."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config import edit as config_edit
from harness.pending_changes import Change, PendingChanges, diff, with_outcome

CONFIG = "# kept\na: 1\nb: {c: 2, d: text}   # inside\n"
KEYS = ("a", "b.c", "b.d", "new", "b.new.deep", "b.new", "b")
EDITS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(KEYS), st.integers(0, 3) | st.sampled_from(["x", None, True, 0.5])),
        st.lists(st.sampled_from(KEYS), max_size=2, unique=True),
    ),
    max_size=6,
)


def edited(draft: PendingChanges, changes: dict[str, Any], remove: list[str]) -> PendingChanges:
    return with_outcome(draft, "edit_config", {"changes": changes, "remove": remove})


@settings(deadline=None)
@given(EDITS)
def test_a_draft_is_its_edits_in_a_row(edits: list[tuple[dict[str, Any], list[str]]]) -> None:
    draft, text = PendingChanges(), CONFIG
    for changes, remove in edits:
        remove = [key for key in remove if key not in changes]
        try:
            text = config_edit.edit(text, changes, remove)
        except config_edit.ConfigEditError:
            continue  # refused, so it never comes into a draft
        draft = edited(draft, changes, remove)
    assert filled(config_edit.load(draft.apply(CONFIG))) == filled(config_edit.load(text))


def filled(node: Any) -> Any:
    """Without the empty mappings that removed keys leave behind."""
    if not isinstance(node, dict):
        return node
    values = {key: filled(value) for key, value in node.items()}
    return {key: value for key, value in values.items() if value != {}}


def test_comments_and_order_stay() -> None:
    assert edited(PendingChanges(), {"b.c": 5}, []).apply(CONFIG) == CONFIG.replace("c: 2", "c: 5")


def test_setting_and_unsetting_leaves_a_draft_that_still_counts_as_a_change() -> None:
    draft = edited(edited(PendingChanges(), {"a": 2}, []), {}, ["a"])
    assert draft.config == {} and draft.removed == ("a",)
    assert not draft.is_empty
    assert PendingChanges().is_empty


def test_two_repairs_are_the_same_whatever_is_said_about_them() -> None:
    args = {"name": "OMP_NUM_THREADS", "value": "1"}
    said = [Change("environment", "OMP_NUM_THREADS", None, "1", "a")]
    first, second = (with_outcome(PendingChanges(), "set_environment", args, each) for each in (said, []))
    assert first.fingerprint() == second.fingerprint() != PendingChanges().fingerprint()
    assert first.changes[0].in_words == "OMP_NUM_THREADS set to 1 (a)"


def test_a_patch_made_twice_counts_once() -> None:
    args = {"path": "a.py", "old": "x", "new": "y", "why": "z"}
    draft = with_outcome(PendingChanges(), "patch_code", args)
    assert with_outcome(draft, "patch_code", args).patches == draft.patches


def test_a_rendered_config_replaces_earlier_edits() -> None:
    draft = with_outcome(edited(PendingChanges(), {"a": 2}, []), "render_config", {"settings": {"lr": 1e-5}})
    assert draft.settings == {"lr": 1e-5} and draft.config == {}


def test_changes_are_told_in_words() -> None:
    assert Change("removed", "a.b", 3, None, "misspelt").in_words == "a.b (3) taken out (misspelt)"
    assert diff("a: 1\n", "a: 2", "config.yaml").splitlines()[-2:] == ["-a: 1", "+a: 2"]
