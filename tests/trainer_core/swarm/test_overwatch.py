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
        self.state, self.is_down = state, False
        self.asked: list[str] = []
        self.running: dict[str, dict[str, Any]] = {
            f"{at:08x}-0000-4000-8000-000000000000": {
                "client_uuid": f"client-{at % 3}",
                "episode_type": "eval" if at % 10 == 9 else "train",
                "llm_call_count": str(at % 7),
                "time_since_last_activity": f"{at * 7 % 240:.1f}s",
                "discard_episode_timeout": "240.0s",
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
            "/get_log_tail": lambda: {
                "lines": ["[ajet] begun", *(f"step:{at} - x:0.5" for at in range(1, 60))]
            },
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
            "completed_tasks_rewards": {
                name: [0.1 * at - 0.2, 0.1 * at + 0.2] for at, name in enumerate(names)
            },
            "running_episode_details": self.running if is_on and self.running else None,
            "episode_counts": {"finished": 120, "idle": 3, "aborted": 1, "late": 0} if is_on else {},
            "reward_curve": [[at, 0.3 + 0.01 * at] for at in range(1, 60)] if is_on else [],
            "seconds_in_status": 75.0,
        }


URL = "http://swarm:10086"


@asynccontextmanager
async def screen(server: Server, size: tuple[int, int] = (80, 18)) -> AsyncIterator[Pilot[None]]:
    """The screen, after its first reading; it reads again when it is told to."""
    async with httpx.AsyncClient(transport=httpx.MockTransport(server), base_url=URL) as client:
        app = Overwatch(URL, client, 1e6, lambda: datetime(2026, 1, 2, 3, 4, 5))
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: "connecting" not in shown(pilot, "heading"))
            yield pilot


async def until(pilot: Pilot[None], is_so: Callable[[], bool]) -> None:
    for _ in range(200):
        if is_so():
            return
        await pilot.pause()
    raise AssertionError("it does not come to be so")


def shown(pilot: Pilot[None], name: str) -> str:
    return str(pilot.app.screen_stack[0].query_one(f"#{name}", Static).render())


def cells(pilot: Pilot[None], name: str = "episodes") -> list[list[str]]:
    table = pilot.app.screen_stack[0].query_one(f"#{name}", DataTable)
    return [[str(cell) for cell in table.get_row_at(at)] for at in range(table.row_count)]


def question(pilot: Pilot[None]) -> str:
    return str(pilot.app.screen.query_one(Static).render()) if len(pilot.app.screen_stack) > 1 else ""


async def test_shows_what_the_server_does() -> None:
    async with screen(Server()) as pilot:
        assert shown(pilot, "heading") == f"{URL} │ ROLLING for 1 min 15 s │ step 59 │ 03:04:05"
        assert "→ tasks" in shown(pilot, "progress") and "112%" in shown(pilot, "progress")
        assert shown(pilot, "drops") == "Episodes so far: 120 finished, 3 idle, 1 aborted"
        assert "0.310 → 0.890" in shown(pilot, "curve")
        assert cells(pilot)[0] == ["0000001d", "client-2", "eval", "1", "203 / 240", "math[5]"]
        assert pilot.app.query_one(Log).lines[-1] == "step:59 - x:0.5"


async def test_reads_one_thing_after_the_other_and_only_when_it_is_time() -> None:
    server = Server()
    async with screen(server) as pilot:
        assert len(server.asked) == 3
        await pilot.press("space")
        await until(pilot, lambda: len(server.asked) == 6)


@pytest.mark.parametrize("size", [(80, 16), (120, 34)])
async def test_panes(size: tuple[int, int]) -> None:
    async with screen(Server(), size) as pilot:
        for key, name in zip("2341", ("tasks", "clients", "log", "episodes"), strict=True):
            await pilot.press(key)
            assert pilot.app.focused is not None and pilot.app.focused.id == name
        is_wide = size[0] > 100
        assert pilot.app.query_one("#clients").display is is_wide
        await pilot.press("tab")
        assert pilot.app.query_one("#tasks").has_class("chosen") is is_wide


async def test_order_and_reverse() -> None:
    async with screen(Server()) as pilot:
        await pilot.press("o")
        assert [row[5] for row in cells(pilot)][:2] == ["math[7]", "math[7]"]
        await pilot.press("r")
        assert [row[5] for row in cells(pilot)][:2] == ["math[0]", "math[0]"]
        await pilot.press("o")
        assert cells(pilot)[0][0] == "00000000"
        await pilot.press("2", "o", "r")
        assert [row[0] for row in cells(pilot, "tasks")] == [f"math[{at}]" for at in range(6)]
        await pilot.press("4", "o")  # a log has no order


async def test_filter() -> None:
    async with screen(Server()) as pilot:
        await pilot.press("slash", *"eval", "enter")
        assert {row[2] for row in cells(pilot)} == {"eval"} and len(cells(pilot)) == 3
        assert "1 Running (3/30)" in shown(pilot, "tabs")
        await pilot.press("escape")
        assert len(cells(pilot)) == 30 and not pilot.app.query_one(Input).display


async def test_the_cursor_stays_at_its_episode() -> None:
    server = Server()
    async with screen(server) as pilot:
        await pilot.press("down", "down")
        name = cells(pilot)[2][0]
        server.running.pop(next(one for one in server.running if one.startswith(cells(pilot)[0][0])))
        await pilot.press("space")
        await until(pilot, lambda: len(cells(pilot)) == 29)
        assert cells(pilot)[pilot.app.query_one("#episodes", DataTable).cursor_row][0] == name


async def test_abort_asks_and_then_aborts_the_chosen_episode() -> None:
    server = Server()
    async with screen(server) as pilot:
        await pilot.press("down", "a")
        await until(pilot, lambda: "Abort episode 0000001c" in question(pilot))
        await pilot.press("n")
        assert not server.bodies
        await pilot.press("a")
        await until(pilot, lambda: "Abort episode 0000001c" in question(pilot))
        await pilot.press("y")
        await until(pilot, lambda: len(cells(pilot)) == 29)
        server.running.clear()
        await pilot.press("space")
        await until(pilot, lambda: not cells(pilot))
        await pilot.press("a")  # there is nothing to abort
        assert not question(pilot)
    name = "0000001c-0000-4000-8000-000000000000"
    assert server.bodies == [("/abort_episode", {"client_uuid": "client-1", "episode_uuid": name})]


@pytest.mark.parametrize("answers", ["yn", "yy"])
async def test_stop_is_asked_twice(answers: str) -> None:
    server = Server()
    async with screen(server) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: "30 running episodes are lost" in question(pilot))
        await pilot.press(answers[0])
        await until(pilot, lambda: "for all of its clients" in question(pilot))
        await pilot.press(answers[1])
        if answers == "yy":
            await until(pilot, lambda: bool(server.bodies))
    assert server.bodies == ([("/stop_engine", {})] if answers == "yy" else [])


async def test_a_command_that_fails_is_no_end_of_the_screen() -> None:
    server = Server()
    async with screen(server) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: bool(question(pilot)))
        await pilot.press("y")
        await until(pilot, lambda: "Really" in question(pilot))
        server.is_down = True
        await pilot.press("y")
        await until(pilot, lambda: "CANNOT_CONNECT" in shown(pilot, "heading"))


async def test_a_server_that_goes_and_comes_back() -> None:
    server = Server()
    async with screen(server) as pilot:
        server.is_down = True
        await pilot.press("space")
        await until(pilot, lambda: "CANNOT_CONNECT" in shown(pilot, "heading"))
        assert "shown is ROLLING" in shown(pilot, "detail") and len(cells(pilot)) == 30
        server.is_down, server.state = False, "ENGINE.BOOTING"
        await pilot.press("space")
        await until(pilot, lambda: "BOOTING" in shown(pilot, "heading"))
        assert shown(pilot, "detail") == "loading the model" and not cells(pilot)


async def test_thousands_of_episodes_are_cut() -> None:
    async with screen(Server(episodes=4000)) as pilot:
        assert len(cells(pilot)) == MOST_ROWS
        assert f"(4000, {4000 - MOST_ROWS} not shown)" in shown(pilot, "tabs")
