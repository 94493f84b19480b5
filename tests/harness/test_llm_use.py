"""What the journal says about the model: money survives kills, and consultations open, count and close."""

from typing import Any

from harness.journal import Entry
from harness.providers.chat import Usage
from harness.state import ExperimentState, apply
from tests.harness.runs import event_of

CALL = {"id": "c1", "name": "read_pane", "arguments": "{}"}


def folded(*entries: tuple[str, dict[str, Any]]) -> ExperimentState:
    state = ExperimentState()
    for number, (kind, data) in enumerate(entries, start=1):
        state = apply(state, Entry(number, float(number), event_of(kind, data)))
    return state


def reserved(call: int, usd: float | None = 0.5) -> tuple[str, dict[str, Any]]:
    return "llm_reserved", {"call": call, "reserved_usd": usd, "model": "m", "request": "0"}


def settled(call: int, usd: float | None = 0.1) -> tuple[str, dict[str, Any]]:
    data = {"call": call, "cost_usd": usd, "usage": {"output_tokens": 3}, "text": "", "calls": [CALL]}
    return "llm_settled", {**data, "stop": "tool_call"}


REFUSED = ("refused", {"why": "no"})
OPEN = ("consult", {"topic": "failure:1", "why": "w", "facts": {}})
INTENT = ("intent", {"action": "read_pane", "args": {"lines": 40}})
OUTCOME = ("outcome", {"action": "read_pane", "text": "the same"})


def test_a_settled_call_costs_what_it_cost_and_an_unknown_price_nothing() -> None:
    assert folded(reserved(1, None), settled(1, None)).llm.cost_usd == 0.0
    use = folded(OPEN, reserved(1), settled(1), reserved(2), settled(2)).llm
    assert (use.calls, round(use.cost_usd, 6), use.tokens) == (2, 0.2, Usage(output_tokens=3 + 3))
    assert use.answer is not None and use.answer.call == 2


def test_a_call_cut_off_by_a_kill_stays_counted_at_its_most() -> None:
    assert folded(reserved(1)).llm.cost_usd == 0.5
    assert round(folded(reserved(1), reserved(2), settled(2)).llm.cost_usd, 6) == 0.6


def test_an_answer_is_used_up_by_its_action_its_refusal_or_its_rejection() -> None:
    for ending in (INTENT, REFUSED, ("call_rejected", {"call": 1, "why": "?"})):
        assert folded(OPEN, reserved(1), settled(1)).llm.answer is not None
        assert folded(OPEN, reserved(1), settled(1), ending).llm.answer is None


def test_repeats_count_only_while_the_result_is_the_same() -> None:
    first, second = (reserved(1), settled(1), INTENT, OUTCOME), (reserved(2), settled(2), INTENT)
    same = folded(OPEN, *first, *second, OUTCOME).llm.consultation
    assert same is not None and same.repeats("read_pane", {"lines": 40}) == 2
    assert same.repeats("read_pane", {"lines": 41}) == 0
    other = ("outcome", {"action": "read_pane", "text": "something new"})
    changed = folded(OPEN, *first, *second, other).llm.consultation
    assert changed is not None and changed.repeats("read_pane", {"lines": 40}) == 1


def test_troubles_in_a_row_are_counted_and_forgotten_after_a_result() -> None:
    troubled = folded(OPEN, REFUSED, REFUSED).llm.consultation
    assert troubled is not None and troubled.troubles == 2
    relieved = folded(OPEN, REFUSED, REFUSED, reserved(1), settled(1), INTENT, OUTCOME).llm.consultation
    assert relieved is not None and relieved.troubles == 0


def test_a_question_is_closed_for_good() -> None:
    use = folded(OPEN, ("consulted", {"topic": "failure:1", "why": "done"})).llm
    assert use.consultation is None and use.closed == {"failure:1"}
