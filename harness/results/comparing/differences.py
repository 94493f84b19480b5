"""What differs between runs beside the keys: settings nobody varied, code, packages, hardware.

In: a `Gathered` study. Out: one sentence per difference, each a reason to doubt that the keys made the
results differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.results.comparing import provenances
from harness.results.comparing.folders import Gathered
from harness.results.comparing.settings import Settings, differing
from harness.results.comparing.types import Study

_MOST_SETTINGS = 20


def differences(found: Gathered) -> tuple[str, ...]:
    """Everything known to differ between the runs that were started."""
    pairs = zip(found.files, found.settings, strict=True)
    started = {one.run.name: (one, settings) for one, settings in pairs if one.record.attempts}
    records = provenances.records_of({name: one.run.folder for name, (one, _) in started.items()})
    settings = _settings(found.study, {name: own for name, (_, own) in started.items()})
    return (*settings, *provenances.code(records), *provenances.surroundings(records))


def _settings(study: Study, runs: Mapping[str, Settings]) -> Iterator[str]:
    keys = {key.name for key in study.keys}
    found = {name: values for name, values in differing(list(runs.values())).items() if name not in keys}
    for name, values in list(found.items())[:_MOST_SETTINGS]:
        yield provenances.told(name, dict(zip(runs, values, strict=True)))
    if len(found) > _MOST_SETTINGS:
        yield f"{len(found) - _MOST_SETTINGS} more settings differ"
