"""The screen, driven by keys, in front of a small fake server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import httpx
import pytest

pytest.importorskip("textual")

from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Log, Static

from trainer_core.swarm.overwatch import MOST_ROWS, Overwatch


class Server:
    """Answers as a swarm server does, and notes what it is asked."""

    def __init__(self, episodes: int = 30, state: str = "ENGINE.ROLLING") -> None:
        self.state, self.asked, self.is_down = state, [], False
        self.running: dict[str, dict[str, Any]] = {
            f"{at:08x}-0000-4000-8000-000000000000": {
                "client_uuid": f"client-{at % 3}",
                "episode_type": "eval" if at % 10 == 9 else "train",
                "llm_call_count": at % 7,
                "time_since_last_activity": float(at * 7 % 240),
                "discard_episode_timeout": 240.0,
                "optional_task_id": f"math[{at % 8}]",
            }
            for at in range(episodes)
        }
        self.bodies: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        if self.is_down:
            raise httpx.ConnectError("All connection attempts failed")
        if request.method == "POST":
            body = json.loads(request.content)
            self.bodies.append((request.url.path, body))
            self.running.pop(body.get("episode_uuid", ""), None)
            return httpx.Response(200, json={"success": True})
        answers = {
            "/get_engine_status": self.status,
            "/get_log_tail": lambda: {"lines": ["[ajet] begun", *(f"step:{at} - x:0.5" for at in range(1, 60))]},
            "/get_current_batch_rollout_pool_information": self.pool,
        }
        return httpx.Response(200, json=answers[request.url.path]())

    def status(self) -> dict[str, Any]:
        detail = "loading the model" if self.state == "ENGINE.BOOTING" else ""
        return {"engine_status": self.state, "engine_status_detail": detail, "global_step": 59}

    def pool(self) -> dict[str, Any]:
        is_on = self.state == "ENGINE.ROLLING"
        names = [f"math[{at}]" for at in range(6 if is_on else 0)]
        return {
            "engine_status": self.state,
            "sample_collection_method": "rollout_until_finish_enough_tasks",
            "completed_episodes": 36 if is_on else 0,
            "completed_episode_target": 32,
            "completed_tasks": 5 if is_on else 0,
            "completed_task_target": 8,
            "completed_non_dummy_tasks": 3 if is_on else 0,
            "completed_non_dummy_task_target": 8,
            "task_expected_num_repeat": 4,
            "completed_tasks_details": {name: ["e"] * (at + 3) for at, name in enumerate(names)},
            "completed_tasks_client_uuids": {name: ["client-0", "client-1"] for name in names},
            "completed_tasks_rewards": {name: {"mean": 0.1 * at, "std": 0.2} for at, name in enumerate(names)},
            "running_episode_details": self.running if is_on and self.running else None,
            "episode_counts": {"finished": 120, "idle": 3, "aborted": 1, "late": 0} if is_on else {},
            "reward_curve": [[at, 0.3 + 0.01 * at] for at in range(1, 60)] if is_on else [],
            "seconds_in_status": 75.0,
        }
