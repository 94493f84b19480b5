"""A guessing game for two agents: the guesser names a number, the keeper of the secret answers higher (H) or
lower (L).

The guesser sees the numbers that the keeper's words have left and may name only these; the keeper sees secret
and guess. There are as many guesses as halving takes: three for six numbers. The episode's reward, 1 if the
secret is guessed in time, is all that either is taught by.

`python agent.py` writes the tasks: in validation whole games, in training games that may begin anywhere, with
numbers ruled out already or with a first guess made; the row's question is the first that is asked. Its
answer is for the warm-up alone: each question with each answer that is allowed, so that it learns the rules,
and nothing about what is good.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from trainer_core.types import Task
from trainer_core.workflow import Tuner, Workflow, WorkflowOutput

NUMBERS = "123456"
WORDS = "HL"


class GuessingGame(Workflow):
    """1 if the secret is guessed in time, else 0."""

    def execute(self, task: Task, tuner: Tuner) -> WorkflowOutput:
        game = tuple(task.metadata[key] for key in ("left", "secret", "first"))
        with closing(HTTPConnection(urlsplit(tuner.as_oai_baseurl_apikey().base_url).netloc)) as connection:
            guesser, keeper = (partial(ask, connection, tuner(name)) for name in ("guesser", "keeper"))
            is_found, guesses = play(*game, guesser, keeper)
        return WorkflowOutput(float(is_found), log_metrics={"guesses": guesses})


def play(
    left: str, secret: str, first: str, guesser: Callable[[str], str], keeper: Callable[[str], str]
) -> tuple[bool, int]:
    """Whether the secret was found, and after how many guesses; the players get what they see. `first`: the
    first guess, where it is made already."""
    most, guesses = most_guesses(left), 0
    while True:
        guess, guesses = (not guesses and first) or guesser(guesser_sees(left)), guesses + 1
        is_found = guess in tuple(left) and guess == secret
        if is_found or guess not in tuple(left) or guesses == most:
            return is_found, guesses
        left = still_possible(left, guess, keeper(keeper_sees(secret, guess)))


def ask(connection: HTTPConnection, agent: Tuner, question: str) -> str:
    """One call of the model, without the milliseconds that OpenAI's client takes for it."""
    headers = {"Authorization": f"Bearer {agent.as_oai_baseurl_apikey().api_key}"}
    body = {"model": agent.model, "messages": [{"role": "user", "content": question}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = json.loads(connection.getresponse().read())
    return answer["choices"][0]["message"]["content"] or ""


def most_guesses(left: str) -> int:
    """As many as halving takes."""
    return len(left).bit_length()


def still_possible(left: str, guess: str, word: str) -> str:
    """The numbers that are left after the keeper's word; none if it was no word of the game."""
    if word not in tuple(WORDS):
        return ""
    return "".join(number for number in left if (number > guess if word == "H" else number < guess))


def guesser_sees(left: str) -> str:
    """Each number in its place, or a dot."""
    return "guess " + "".join(number if number in left else "." for number in NUMBERS)


def keeper_sees(secret: str, guess: str) -> str:
    return f"secret {secret} guess {guess}"


def row(name: str, left: str, secret: str, first: str = "", answer: str = "") -> str:
    """One task as a line."""
    question = keeper_sees(secret, first) if first else guesser_sees(left)
    keys = ("task_id", "main_query", "answer", "left", "secret", "first")
    return json.dumps(dict(zip(keys, (name, question, answer, left, secret, first), strict=True)))


def training_rows() -> list[str]:
    size = len(NUMBERS)
    spans = [NUMBERS[low:high] for low in range(size) for high in range(low + 1, size + 1)] + 4 * [NUMBERS]
    games = [(left, number, "", number) for left in spans for number in left]  # number: secret, and an answer
    pairs = [(secret, first) for secret in NUMBERS for first in NUMBERS if first != secret]
    games += [(NUMBERS, secret, first, word) for secret, first in pairs for word in WORDS]
    return [row(f"{n}", *game) for n, game in enumerate(2 * games)]


def validation_rows() -> list[str]:
    return [row(f"secret-{secret}", NUMBERS, secret) for secret in NUMBERS]


if __name__ == "__main__":
    Path("training.jsonl").write_text("\n".join(training_rows()) + "\n")
    Path("validation.jsonl").write_text("\n".join(validation_rows()) + "\n")
