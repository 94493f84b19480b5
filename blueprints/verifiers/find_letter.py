"""An environment of verifiers (`verifiers.v1`) with a harness of its own: where, at place A, B or C, does a
letter stand beside two digits?

It runs where verifiers is installed, and knows nothing of the trainer. The harness asks the model once, over
HTTP; it could as well be a program of its own, in any language.
"""

import aiohttp
import verifiers.v1 as vf
from verifiers.v1.runtimes import ProgramResult


class Characters(vf.TaskData):
    answer: str


class FindLetter(vf.Task[Characters]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        """1 for the place of the letter."""
        return float(trace.last_reply.strip() == self.data.answer)

    @vf.metric
    async def is_a_place(self, trace: vf.Trace) -> float:
        """1 for an answer of the right form."""
        return float(trace.last_reply.strip() in ("A", "B", "C"))


class FindLetters(vf.Taskset[FindLetter, vf.TasksetConfig]):
    def load(self):
        for number in range(100):
            for letter in "hknqx":
                place = (number + ord(letter)) % 3
                digits = f"{number:02d}"
                text = digits[:place] + letter + digits[place:]
                yield FindLetter(Characters(prompt=text, answer="ABC"[place]), self.config.task)


class AskOnce(vf.Harness[vf.HarnessConfig]):
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, tool_interception_url=None):
        asked = {"model": ctx.model, "messages": [{"role": "user", "content": data.prompt}]}
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {secret}"}) as client:
            async with client.post(f"{endpoint}/chat/completions", json=asked) as answer:
                answer.raise_for_status()
        return ProgramResult(0, "", "")


__all__ = ["AskOnce", "FindLetters"]
