"""Users of `agent.py`, which calls the model through a proxy; they reward nothing.

    ajet-swarm run --conf config.yaml --client "ajet-swarm proxy --reward 'users.py->right'" \\
        --client "python users.py"

The proxy has each request answered eight times, compares the answers with `right`, gives the best one back,
and has the model learn from all of them.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
USERS = 4
MODEL = {"OPENAI_BASE_URL": "http://127.0.0.1:8090/v1", "OPENAI_API_KEY": "none"}


def right(request: Mapping[str, Any], answers: Sequence[Any]) -> list[float]:
    """1 for the place of the letter in the question."""
    question = request["messages"][-1]["content"]
    place = "ABC"[next(at for at, character in enumerate(question) if character.isalpha())]
    return [float(answer.text.strip() == place) for answer in answers]


def use(questions: Sequence[str]) -> None:
    """Ask for ever. The program fails while the proxy starts or ends."""
    while True:
        command = [sys.executable, "-S", HERE / "agent.py", random.choice(questions)]
        if subprocess.run(command, env=os.environ | MODEL, capture_output=True, check=False).returncode:
            time.sleep(1.0)


if __name__ == "__main__":
    questions = [
        json.loads(line)["main_query"] for line in (HERE / "training.jsonl").read_text().splitlines()
    ]
    with ThreadPoolExecutor(USERS) as pool:
        list(pool.map(use, [questions] * USERS))
