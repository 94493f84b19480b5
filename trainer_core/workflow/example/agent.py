"""An agent that answers, reads its answer once more, and is paid for each digit in the right place."""

from trainer_core.types import Task
from trainer_core.workflow import Tuner, Workflow, WorkflowOutput


class Agent(Workflow):
    async def execute(self, task: Task, tuner: Tuner) -> WorkflowOutput:
        client = tuner.as_raw_openai_sdk_client()  # every call through it is recorded and trained
        question = {"role": "user", "content": task.main_query}
        messages, answer, expected = [question], "", task.answer or ""
        for _ in range(2):
            reply = await client.chat.completions.create(model=tuner.model, messages=messages)  # type: ignore[arg-type]
            answer = reply.choices[0].message.content or ""
            messages += [{"role": "assistant", "content": answer}, question]
        right = sum(said == wanted for said, wanted in zip(answer, expected, strict=False))
        return WorkflowOutput(
            reward=right / len(expected),
            is_success=answer == expected,
            log_metrics={"answer_length": len(answer)},
        )
