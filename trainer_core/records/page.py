"""One episode as one file of HTML: nothing is fetched, and no text in it can become markup or code."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from pathlib import Path
from typing import Any

from trainer_core.records.payload import shared_beginnings
from trainer_core.records.store import EpisodeStore, Record
from trainer_core.types import Call, Episode

_AS_SCRIPT_TEXT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def episode_page(store: EpisodeStore, record: Record) -> str:
    """The page of an episode; RecordsError where its payload cannot be read."""
    episode = store.read(record)
    folder = Path(__file__).parent
    script = (folder / "episode.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    used = {each for call in episode.calls for each in (*call.prompt_ids, *call.completion_ids)}
    data = {
        "title": title(record),
        "facts": facts(record),
        "texts": texts(episode),
        "advantage": record.advantage,
        "pieces": {each: store.pieces.get(each, "�") for each in sorted(used)},
        "calls": [
            _call(call, *beginning)
            for call, beginning in zip(episode.calls, shared_beginnings(episode.calls), strict=True)
        ],
    }
    values = {
        "title": html.escape(title(record)),
        "data": json.dumps(data).translate(_AS_SCRIPT_TEXT),
        "script": script,
        "script_hash": f"sha256-{digest}",
    }
    head, *parts = (folder / "episode.html").read_text(encoding="utf-8").split("{{")
    named = (part.split("}}", 1) for part in parts)
    return head + "".join(values[name] + rest for name, rest in named)


def title(record: Record) -> str:
    """Which episode it is."""
    where = "validation after" if record.split == "validation" else "training"
    return f"Episode {record.id}: {where} step {record.step}, task {record.task_id}, try {record.repeat + 1}"


def facts(record: Record) -> list[tuple[str, str]]:
    """What a person wants to know of it first."""
    metrics = json.loads(record.metrics).items()
    known: list[tuple[str, Any]] = [
        ("reward", record.reward),
        ("success", "yes" if record.is_success else "no"),
        ("ended", record.stop_reason),
        ("error", record.error),
        ("advantage", record.advantage),
        ("calls", record.calls),
        ("prompt tokens", record.prompt_tokens),
        ("sampled tokens", record.sampled_tokens),
        ("seconds", record.seconds),
        ("weights after step", record.weight_version),
        *metrics,
    ]
    return [
        (name, f"{value:.4g}" if isinstance(value, float) else str(value))
        for name, value in known
        if value is not None
    ]


def texts(episode: Episode) -> list[tuple[str, str]]:
    """The task, what was judged, and the expected answer, as text."""
    asked = "\n\n".join(
        f"{each.get('role')}: {_content(each.get('content'))}" for each in episode.task.messages
    )
    found = [("Task", asked), ("Expected answer", episode.task.answer or ""), ("Output", episode.output)]
    return [(name, text) for name, text in found if text]


def _content(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _call(call: Call, after: int | None, kept: int) -> dict[str, Any]:
    return {
        "agent": call.agent,
        "version": call.weight_version,
        "finish": call.finish_reason,
        "seconds": call.seconds,
        "after": after,
        "kept": kept,
        "prompt": call.prompt_ids[kept:],
        "completion": call.completion_ids,
        "logprobs": [round(value, 6) for value in call.logprobs],
    }
