"""Equal charts are drawn once in a process: the drawings take most of the time of a report."""

import pickle
from collections.abc import Iterator

import pytest

from harness.results import drawing
from harness.results.charts import Chart

_draw = drawing.draw


@pytest.fixture(autouse=True, scope="session")
def drawn_once() -> Iterator[None]:
    known: dict[bytes, str] = {}

    def draw(chart: Chart) -> str:
        key = pickle.dumps(chart)
        if key not in known:
            known[key] = _draw(chart)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "draw", draw)
        yield


@pytest.fixture
def drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what drawing twice gives."""
    monkeypatch.setattr(drawing, "draw", _draw)
