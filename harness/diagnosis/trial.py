"""What signatures of a file would change: on the example of every known failure, and on logs of earlier runs.

`examples.yaml` holds a short log for each shipped signature; `tools.signature_examples` makes it.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.attempt import UNKNOWN, Diagnosis
from harness.diagnosis import matching
from harness.diagnosis.diagnose import diagnose_log
from harness.diagnosis.reading import read
from harness.diagnosis.signatures import SignatureCatalogue, load_usable
from harness.diagnosis.signatures.schema import LOADER, Signature
from harness.installation import own_text

EXAMPLES = Path(__file__).with_name("examples.yaml")
NEUTRAL = "code_error"
"""The family that a signature is tried with where its own is not filled in yet."""


@dataclass(frozen=True)
class Caught:
    """A log in which one of the signatures holds. `ids`: of those that do; `before`: what the log's failure
    is called without them (a signature, else a family), `after`: with them."""

    where: str
    ids: tuple[str, ...]
    before: str
    after: str

    @property
    def is_taken(self) -> bool:
        """True if one of the signatures is now the cause, and another was before."""
        return self.after in self.ids and self.before not in (UNKNOWN, *self.ids)


def examples(signatures: Iterable[Signature] = ()) -> dict[str, str]:
    """Short logs of known failures by the id of their signature, and those that these signatures have."""
    shipped: dict[str, str] = yaml.load(own_text(EXAMPLES), Loader=LOADER)
    return shipped | {each.id: each.example for each in signatures if each.example}


def of_texts(signatures: Sequence[Signature], texts: dict[str, str]) -> Iterator[Caught]:
    """Those of these texts, by what they are called, that the signatures catch."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "example.log"

        def written() -> Iterator[tuple[str, Path]]:
            for where, text in texts.items():
                log.write_text(text, encoding="utf-8")
                yield where, log

        yield from of_logs(signatures, written())


def of_logs(signatures: Sequence[Signature], logs: Iterable[tuple[str, Path]]) -> Iterator[Caught]:
    """Those of these logs that the signatures catch. Raises OSError for one that cannot be read."""
    unfilled = {"family": NEUTRAL}
    tried = [each if each.family != UNKNOWN else each.model_copy(update=unfilled) for each in signatures]
    ids = {each.id for each in tried}
    others = tuple(each for each in load_usable()[0].signatures if each.id not in ids)
    alone, without = SignatureCatalogue(tuple(tried)), SignatureCatalogue(others)
    together = SignatureCatalogue((*tried, *others))
    for where, log in logs:
        held = matching.matches(read(log, alone.words), alone)
        if held:
            before = diagnose_log(log, catalogue=without)
            after = diagnose_log(log, catalogue=together)
            caught = tuple(dict.fromkeys(match.signature.id for match in held))
            yield Caught(where, caught, _called(before), _called(after))


def _called(found: Diagnosis) -> str:
    return found.signature or found.family
