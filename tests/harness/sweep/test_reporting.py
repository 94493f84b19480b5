"""A model writes about a sweep: it cites, is bounded, and is never in the way of the report."""

from typing import Any

import pytest

from harness.providers.chat import Reply, StopReason, Usage
from harness.providers.conversation import Account
from harness.providers.model import OutOfPatienceError
from harness.results.comparing.types import Comparison
from harness.results.narrative.evidence import LONGEST_LISTING, listing
from harness.results.narrative.sections import MAX_REFUSALS
from harness.results.narrative.sweep import SweepEvidence
from harness.sweep.reporting import MOST_CALLS, narrate
from tests.harness.author.authoring import FakeModel, Said, told
from tests.harness.results.comparing.made import compared
from tests.harness.results.narrative.written import failed_sweep

CONTRAST = {"kind": "contrast", "key": "kl_loss_coef", "level": 0.1}


@pytest.fixture(scope="module")
def made() -> Comparison:
    return failed_sweep()


def written(words: str, *findings: dict[str, Any]) -> Said:
    section = {"section": "findings", "findings": list(findings), "interpretation": words}
    return "write_sections", {"sections": [section]}


GOOD = written("[[level/kl_loss_coef/0.1]] is worth it.", CONTRAST)
BAD = written("It reached 0.7.", {**CONTRAST, "level": 0.2}, CONTRAST)


async def test_what_cannot_be_cited_goes_back_with_the_reason(made: Comparison) -> None:
    model = FakeModel([BAD, GOOD])
    assert (await narrate(made, model, Account()))["findings"]["interpretation"].startswith("[[level")
    assert "numbers of its own (0 7)" in told(model)[0] and "did you mean 0.1?" in told(model)[0]


async def test_after_two_refusals_or_an_outage_the_findings_stand_alone(made: Comparison) -> None:
    for said, asked in (([BAD] * 10, MAX_REFUSALS + 1), ([BAD, OutOfPatienceError("no answer")], 2)):
        model = FakeModel(said)
        kept = (await narrate(made, model, Account()))["findings"]
        assert (kept["findings"], kept["interpretation"]) == ([CONTRAST], "")
        assert len(model.requests) == asked


UNUSABLE: dict[str, list[Said]] = {
    "an outage": [OutOfPatienceError("no answer")],
    "words without a call": ["I would say …"] * 20,
    "a refusal": [Reply("", (), StopReason.REFUSED, Usage())] * 20,
    "another tool": [("run_bash", {"command": "x"})] * 20,
    "empty sections": [written("")] * 20,
}


@pytest.mark.parametrize("name", UNUSABLE)
async def test_a_model_that_fails_costs_only_the_words(made: Comparison, name: str) -> None:
    model = FakeModel(list(UNUSABLE[name]))
    assert await narrate(made, model, Account()) == {}
    assert len(model.requests) <= MOST_CALLS


async def test_the_model_sees_facts_by_id_as_data_and_what_cites_them_is_kept_at_once(
    made: Comparison,
) -> None:
    model = FakeModel([GOOD])
    kept = await narrate(made, model, Account())
    assert kept["findings"]["findings"] == [CONTRAST] and len(model.requests) == 1
    shown = model.requests[0].turns[0].text
    assert "point/p03/mean = 0.700 [0.675, 0.725]" in shown and "CUDA out of memory" in shown
    assert shown.count("</data>") == 3


def test_the_model_is_told_what_each_contrast_was_found_to_be(made: Comparison) -> None:
    """An interval that excludes zero need not survive the correction for several comparisons."""
    (one,) = (each for each in made.contrasts if each.level == 0.1)
    assert f"/0.1/finding = {one.finding}" in listing(SweepEvidence(made))


def test_a_large_sweep_fits() -> None:
    large = compared({(level,): [0.1, 0.2, 0.3] for level in range(200)})
    assert len(listing(SweepEvidence(large))) <= LONGEST_LISTING + 20
