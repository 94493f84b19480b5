"""Whether a section of the report says what the raw files do not bear out.

In: the section, the observation (the results are there). Out: a refusal that names each wrong statement with
its reason, so that it can be corrected; None when there is none, or when it was refused often enough.
"""

import logging

from harness.agent.types import Observation

_log = logging.getLogger(__name__)

MAX_CORRECTIONS = 2
"""How often one section is sent back; after that the report strikes out what is wrong."""
_MOST_NAMED = 8


def refuse(section: str, text: str, observation: Observation) -> str | None:
    """A refusal, or None."""
    path = observation.result_dir / "journal.jsonl"
    if not path.is_file():
        return None
    from harness import journal

    try:
        entries = journal.read(path)
    except (journal.JournalDamagedError, OSError):
        return None
    sent_back = sum(
        entry.kind == "refused"
        and entry.data.get("action") == "write_report_section"
        and entry.data.get("args", {}).get("section") == section
        for entry in entries
    )
    if sent_back >= MAX_CORRECTIONS:
        return None
    try:
        return _refusal(section, text, observation)
    except Exception as error:  # noqa: BLE001, a run does not fail for words about it; the report checks them once more
        _log.warning("what the model wrote could not be checked: %r", error)
        return None


def _refusal(section: str, text: str, observation: Observation) -> str | None:
    from harness.results.claims import check_sections, evidence_of_folder

    evidence = evidence_of_folder(observation.result_dir)
    if evidence is None:
        return None
    checked = check_sections({section: text}, evidence)
    wrong = [f"“{claim.sentence}”: {claim.reason}" for claim in checked.wrong]
    if section == "limitations":  # the last place for it; other sections may still name it
        whole = check_sections({**observation.state.narrative, section: text}, evidence)
        wrong += [f"the text {omission.text}" for omission in whole.omissions]
    if not wrong:
        return None
    shown = wrong[:_MOST_NAMED] + (
        [f"and {len(wrong) - _MOST_NAMED} more"] if len(wrong) > _MOST_NAMED else []
    )
    told = "\n".join(f"- {line}" for line in shown)
    return f"the raw files do not bear this out; correct it or leave it out, then write it again:\n{told}"
