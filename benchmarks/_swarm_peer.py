"""A peer for `swarm.py`: episodes as records of a manager process, which are scanned for every claim.

    python benchmarks/_swarm_peer.py PORT EPISODES

So AgentJet lays out what it knows of its episodes, by its description; the code is ours. Nothing reaches a
disk, nothing is locked, and a scan copies names alone: where that is not so, it is slower. With 0 EPISODES
every request is answered at once: what HTTP costs.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from contextlib import suppress
from multiprocessing import Manager
from multiprocessing.managers import DictProxy
from typing import Any

import uvicorn


class Peer:
    """An ASGI application."""

    def __init__(self, records: DictProxy[str, Any], episodes: int) -> None:
        self._records, self._is_bare = records, not episodes
        records.update([self._registered() for _ in range(episodes)])

    @staticmethod
    def _registered() -> tuple[str, dict[str, Any]]:
        name = str(uuid.uuid4())
        return f"free/{name}", {"episode_uuid": name, "status": "registered", "calls": 0}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raw = (await receive()).get("body", b"")
        answer = {"success": True, "episode_uuid": "x", "fail_cause": ""}
        if not self._is_bare and scope["path"] == "/claim_episode":
            answer["episode_uuid"] = self._claim(json.loads(raw)["client_uuid"])
        elif not self._is_bare and scope["path"] == "/end_episode":
            self._end(json.loads(raw))
        body = json.dumps(answer).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _claim(self, client: str) -> str:
        free = next(name for name in self._records.keys() if name.startswith("free/"))  # noqa: SIM118
        record = self._records.pop(free)
        now = {"client_uuid": client, "status": "claimed", "active_at": time.time()}
        self._records[f"claimed/{record['episode_uuid']}"] = record | now
        return str(record["episode_uuid"])

    def _end(self, ended: dict[str, Any]) -> None:
        record = self._records.pop(f"claimed/{ended['episode_uuid']}")
        assert record["client_uuid"] == ended["client_uuid"]
        self._records.update([self._registered()])


if __name__ == "__main__":
    with Manager() as manager:
        app = Peer(manager.dict(), int(sys.argv[2]))
        plain: Any = {"interface": "asgi3", "lifespan": "off", "access_log": False, "log_level": "error"}
        with suppress(KeyboardInterrupt):
            uvicorn.run(app, port=int(sys.argv[1]), **plain)
