"""What holds for any text and any evidence; three verdicts; places of sentences."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.results.claims import check, check_sections
from harness.results.claims.passages import parser, passages
from tests.harness.results.claims.worlds import COMPARISONS, RUNS, evidence

SAID = """
the pass rate KL loss reward rose fell from to at step 0 40 120 0.85 87 % 1e-5 best significantly not no
attempt 2 baseline [0.1, 0.2] ± higher than lower all runs failed because of
seed 1 p03 three twice | - . ; ( ) = ~ 5e999
percentage points per step 12 min improved unchanged same converged interval excludes zero
learning last ten rows
"""
WORDS = st.sampled_from(SAID.split())


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=30).map(" ".join), st.sampled_from([*RUNS, *COMPARISONS]))
@example("| step | KL |\n|---|---|\n| 0 | [0.1, 0.2] |\n| | |", "sorting")
@example("step 99999999999999999999 to 9e400", "flat")
def test_no_text_is_too_odd(text: str, world: str) -> None:
    for claim in check(text, evidence(world)).claims:
        assert claim.why or claim.verdict == "ok"


@given(st.text(max_size=200))
@settings(max_examples=60, deadline=None)
def test_sentences_stand_where_they_say(text: str) -> None:
    from harness.results.claims.passages import plain

    tokens = parser().parse(text)
    for passage in passages(tokens):
        assert plain(tokens[passage.token])[passage.start : passage.end] == passage.text


def test_a_cause_that_nobody_measured_is_marked_and_not_struck() -> None:
    checked = check("The pass rate rose from 0.275 to 0.850 because of the KL loss.", evidence("sorting"))
    assert checked.ok and [claim.kind for claim in checked.unsure] == ["cause"]


def test_a_diagnosed_cause_is_borne_out() -> None:
    checked = check("Attempt 1 failed because vLLM ran out of memory.", evidence("repaired"))
    assert checked.ok and not checked.unsure


def test_what_one_section_names_is_not_missing_in_another() -> None:
    said = {"findings": "The pass rate rose to 0.75.", "what_happened": "Attempt 1 ran out of memory."}
    assert check_sections(said, evidence("repaired")).ok
    assert not check_sections({"findings": said["findings"]}, evidence("repaired")).ok


def test_proposals_are_no_claims_but_what_they_rest_on_is() -> None:
    plans = "Repeat with 5 seeds at a learning rate of 3e-6."
    assert check(plans, evidence("sorting"), "next_steps").claims == ()
    rests = "Since the pass rate was 0.95 at step 120, stop earlier."
    assert not check(rests, evidence("sorting"), "next_steps").ok


def test_withheld_numbers_are_no_evidence() -> None:
    from dataclasses import replace
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from harness.results.claims import evidence_of_run
    from harness.results.collect import collect
    from harness.results.facts import build_facts

    with TemporaryDirectory() as folder:
        told = RUNS["sorting"](Path(folder))
        record = collect(Path(folder))
        facts = build_facts(record)
        hidden = {name: replace(fact, withheld="differs") for name, fact in facts.items()}
        said = "The pass rate was 0.850 at step 120."
        assert check(said, evidence_of_run(record, facts, told)).ok
        assert not check(said, evidence_of_run(record, hidden, told)).ok


@pytest.mark.parametrize("world", [*RUNS, *COMPARISONS])
def test_nothing_said_is_nothing_wrong(world: str) -> None:
    assert check("", evidence(world)).ok
