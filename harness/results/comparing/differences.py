"""What differs between runs beside the keys: settings nobody varied, code, packages, hardware.

In: a study and its runs' files. Out: one sentence per difference, each a reason to doubt that the keys made
the results differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.results.comparing import provenances
from harness.results.comparing.runs import RunFiles
from harness.results.comparing.settings import differing, settings_of
from harness.results.comparing.types import Study

_MOST_SETTINGS = 20


def differences(study: Study, files: Sequence[RunFiles]) -> tuple[str, ...]:
    """Everything known to differ. The settings of a planned study were compared before it began."""
    started = [one for one in files if one.record.attempts]
    settings = _settings(study, started) if study.design == "given" else ()
    records = provenances.records_of({one.run.name: one.run.folder for one in started})
    return (*settings, *provenances.code(records), *provenances.surroundings(records))


def _settings(study: Study, files: Sequence[RunFiles]) -> Iterator[str]:
    keys = {key.name for key in study.keys}
    found = {
        name: values
        for name, values in differing([settings_of(one) for one in files]).items()
        if name not in keys
    }
    runs = [one.run.name for one in files]
    for name, values in list(found.items())[:_MOST_SETTINGS]:
        yield provenances.told(name, dict(zip(runs, values, strict=True)))
    if len(found) > _MOST_SETTINGS:
        yield f"{len(found) - _MOST_SETTINGS} more settings differ"
