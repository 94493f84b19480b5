"""What a model wrote: the words must be the journal's, and the findings of the claims checker must come out
as they were recorded.

In: the narrative as result.json or sweep.json has it, the words in the journal, the evidence. Out: what
differs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from harness.redaction import secret_values
from harness.results import narrative
from harness.results.text import clean_tree
from harness.results.verifying.same import as_read, differences

if TYPE_CHECKING:
    from harness.results.claims import Evidence


def said_otherwise(
    recorded: Any, written: Mapping[str, str], evidence: Evidence | None
) -> Iterator[tuple[str, str]]:
    """Where a narrative, and what was found in it, is not as it would be now. `written`: in the journal."""
    if not recorded and not written:
        return
    if not isinstance(recorded, dict):
        yield "narrative", "the journal has one, and this has none"
        return
    secrets = secret_values(os.environ)
    sections = {name: text[: narrative.LONGEST] for name, text in clean_tree(dict(written), secrets).items()}
    for place, why in differences(recorded.get("sections"), sections, "narrative.sections"):
        yield place, why.replace("the runs give", "the journal has")
    if evidence is not None:
        told = clean_tree(narrative.tell(sections, secrets, evidence).as_json(), secrets)
        yield from differences(recorded.get("checked"), as_read(told), "narrative.checked")
