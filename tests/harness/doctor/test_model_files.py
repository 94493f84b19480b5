"""Which revision of a model of the hub is complete on this machine."""

import json
from pathlib import Path

import pytest

from harness.doctor.model_files import hub_cache, is_cached


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """The snapshot of `main`, still without weights."""
    folder = tmp_path / "models--org--model"
    found = folder / "snapshots" / "abc"
    found.mkdir(parents=True)
    (found / "config.json").write_text("{}")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc\n")
    return found


def cached(snapshot: Path, model: str = "org/model", revision: str = "main") -> bool:
    return is_cached({"HF_HUB_CACHE": str(snapshot.parents[2])}, model, revision)


def test_a_model_in_one_file(snapshot: Path) -> None:
    assert not cached(snapshot) and not cached(snapshot, "org/other")
    (snapshot / "model.safetensors").symlink_to(snapshot / "not-there")
    assert not cached(snapshot), "its download was cut off"
    (snapshot / "not-there").touch()
    assert cached(snapshot)


def test_a_model_in_parts_needs_all_of_them(snapshot: Path) -> None:
    parts = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(parts))
    (snapshot / "model-1.safetensors").touch()
    assert not cached(snapshot)
    (snapshot / "model-2.safetensors").touch()
    assert cached(snapshot)
    (snapshot / "model.safetensors.index.json").write_text("[")
    assert not cached(snapshot)


def test_only_the_revision_that_would_be_used(snapshot: Path) -> None:
    (snapshot / "model.safetensors").touch()
    assert cached(snapshot, revision="abc") and not cached(snapshot, revision="v2")
    (snapshot.parents[1] / "refs" / "main").write_text("def")
    assert not cached(snapshot), "what is cached is not what main means now"


@pytest.mark.parametrize(
    ("model", "revision"),
    [("../../etc", "main"), ("org/" + "x" * 300, "main"), ("org/model", "../main"), ("model", "")],
)
def test_no_name_leads_elsewhere(snapshot: Path, model: str, revision: str) -> None:
    assert not cached(snapshot, model, revision)


def test_where_the_cache_is() -> None:
    assert hub_cache({"HUGGINGFACE_HUB_CACHE": "/a", "HF_HOME": "/b"}) == Path("/a")
    assert hub_cache({"HF_HOME": "/b"}) == Path("/b/hub")
    assert hub_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/hub")
