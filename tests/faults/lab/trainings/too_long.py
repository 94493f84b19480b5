"""A prompt is longer than the config allows."""

from settled import config, go_on

settings = config()


def tokenize_prompt(prompt: str, max_length: int) -> list[int]:
    sequence_length = len(prompt)
    if sequence_length > max_length:
        raise NotImplementedError(f"{sequence_length=} is larger than {max_length=}")
    return list(prompt.encode())


for step in go_on(settings["max_steps"]):
    tokenize_prompt("question " * 20 * step, settings["max_prompt_length"])
