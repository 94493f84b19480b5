"""A question through the command line: a model plans the sweep, it runs, the model writes about it."""

import json
from pathlib import Path

from tests.e2e.sweep_bench import SweepBench
from tests.model_server.seen import Seen
from tests.model_server.server import ModelServer
from tests.model_server.steps import Step, call

QUESTION = "does the rate --lr matter for the reward?"
PROPOSAL = {
    "sweep": {
        "vary": {"arg:--lr": ["0.1", "0.2"]},
        "design": "one-at-a-time",
        "seeds": 2,
        "metric": "reward",
        "goal": "max",
        "expect": [{"key": "arg:--lr", "level": "0.2", "effect": "higher", "why": "it learns faster"}],
    },
    "hypothesis": "A larger rate learns faster.",
    "change_mind": "A reward that is no higher at 0.2.",
    "cautions": ["Two seeds only."],
}
FALSE = "At 0.2 the reward is 0.987, which is higher than at 0.1."
TRUE = "The larger rate is the one to go on with: [[level/lr/0.2]]."


def wise(seen: Seen) -> Step:
    """Plans, and writes; whatever it is asked about a single run it leaves to the numbers."""
    if "propose_sweep" in seen.tools:
        return call("propose_sweep", **PROPOSAL)
    if "write_sections" in seen.tools and "finish" not in seen.tools:
        findings = [{"kind": "contrast", "key": "lr", "level": "0.2"}]
        words = FALSE if "write_sections" not in [each.name for each in seen.calls] else TRUE
        return call(
            "write_sections",
            sections=[{"section": "findings", "findings": findings, "interpretation": words}],
        )
    return call("finish", reason="all said")


def test_a_question_becomes_a_sweep_whose_words_are_checked(tmp_path: Path) -> None:
    sweep = SweepBench(tmp_path, {})
    with ModelServer(wise) as server:
        model = ("--model", f"anthropic:test@{server.anthropic_url}", "--seed-key", "arg:--seed")
        slots = ("--set", f"name={sweep.dir.name}", "--parallel", "2")
        asked = ("sweep", QUESTION, "--from", str(sweep.blueprint), *model, *slots)
        refused = sweep.harness(*asked, status=2)
        assert "look at it, and start it with --yes" in refused and "A larger rate learns faster." in refused
        assert not sweep.dir.exists()
        sweep.harness(*asked, "--yes")
    assert {run.outcome for run in sweep.sweep_state.runs.values()} == {"succeeded"}
    kept = json.loads((sweep.dir / "proposal.json").read_text())
    assert kept["hypothesis"] == PROPOSAL["hypothesis"] and kept["calls"]
    assert [expected["verdict"] for expected in sweep.comparison["expected"]] == ["held"]
    report = (sweep.dir / "sweep_report.md").read_text()
    assert "The larger rate is the one to go on with" in report and "0.987" not in report
    assert "reward is higher (better) with" in report
    sweep.harness("verify", str(sweep.dir))
