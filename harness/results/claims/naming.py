"""How texts call the things that raw files and configs call `critic/rewards/mean` or `kl_loss_coef`.

In: keys of metrics, columns of validations, keys of configs. Out: `Term`s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.results.claims.types import Term
from harness.results.facts import KL_KEYS, REWARD_KEYS, THROUGHPUT_KEYS

PASS_RATE = "val/task_pass_rate@1"
_PASS_NAMES = (
    "task pass rate@1",
    "pass rate@1",
    "task pass rate",
    "pass rate",
    "pass@1",
    "success rate",
    "mean success rate",
    "solve rate",
    "validation score",
    "validation performance",
    "validation pass rate",
    "task success rate",
)
_ACCURACY = ("accuracy", "validation accuracy", "eval accuracy")
_IN_WORDS = {"2": "two", "4": "four", "8": "eight"}
_HIGHER = re.compile(r"reward|pass|acc|score|success|throughput|tokens_per|return|f1|bleu|win", re.IGNORECASE)
_LOWER = re.compile(r"loss|perplexity|ppl|error|timing|time|latency|wer|mse|mae", re.IGNORECASE)
_SYNONYMS = {
    "lr": "learning rate",
    "coef": "coefficient",
    "num": "number of",
    "freq": "frequency",
    "bs": "batch size",
}
_OPENING = frozenset({"train", "training", "max", "min", "num", "ppo", "actor", "total", "global", "mini"})
"""Words before a setting's name that texts leave out: `train_batch_size` is "the batch size"."""


def goal_of(metric: str) -> int:
    """+1 where higher is better, −1 where lower is, 0 where nobody can tell."""
    if "kl" in metric.lower() or "pg_loss" in metric:
        return 0
    if _HIGHER.search(metric):
        return 1
    return -1 if _LOWER.search(metric) else 0


def metric_terms(keys: Iterable[str]) -> tuple[Term, ...]:
    """Terms of metrics; `val/` stands before the columns of validations."""
    keys = list(keys)
    has_accuracy = any("acc" in key.lower() for key in keys)
    return tuple(Term(tuple(dict.fromkeys(_names(key, has_accuracy))), frozenset({key})) for key in keys)


def _names(key: str, has_accuracy: bool) -> list[str]:
    spaced = [" ".join(re.split(r"[\s_\-/=:`]+", part.lower())).strip() for part in _parts(key)]
    names = [name for name in spaced if name]
    column = key.removeprefix("val/")
    if key == PASS_RATE:
        names += [*_PASS_NAMES, *(() if has_accuracy else _ACCURACY)]
    elif (k := re.fullmatch(r"task_pass_rate@(\d+)", column)) is not None:
        names += [f"pass rate@{k[1]}", f"pass@{k[1]}", f"success rate@{k[1]}"]
        names += [f"{count} tries" for count in (k[1], _IN_WORDS.get(k[1], k[1]))]
    elif column == "mean_reward":
        names += ["mean reward", "validation reward", "mean validation reward", "validation mean reward"]
    elif column == "std_reward":
        names += ["reward std", "standard deviation of the reward"]
    if key in REWARD_KEYS:
        names += [
            "reward",
            "rewards",
            "training reward",
            "mean reward",
            "mean training reward",
            "average reward",
        ]
    elif key in KL_KEYS:
        names += ["kl", "kl loss", "kl divergence", "kl term", "kl penalty", "kl distance"]
    elif key in THROUGHPUT_KEYS:
        names += ["throughput", "tokens per second", "tokens/s"]
    elif key.startswith("timing_s/step"):
        names += ["step time", "time per step", "seconds per step", "s per step"]
    elif "grad_norm" in key:
        names += ["gradient norm", "grad norm"]
    elif "acc" in key.lower():
        names += ["accuracy", "val accuracy", "validation accuracy"]
    elif "pg_loss" in key:
        names += ["policy loss", "policy gradient loss"]
    elif re.search(r"(?:^|[_/])loss$", key):
        names += ["loss", "training loss"] if "val" not in key else ["validation loss", "val loss", "loss"]
    return [*names, *_without_split(key)]


_SPLIT = re.compile(
    r"(?:.*/)?(?P<split>train|training|eval|evaluation|val|valid|validation|dev|test)[_/](?P<rest>\w+)"
)


def _without_split(key: str) -> list[str]:
    """`eval_f1` is "F1" and "evaluation F1"."""
    match = _SPLIT.fullmatch(key.lower())
    if match is None:
        return []
    rest = match["rest"].replace("_", " ")
    is_held_out = match["split"] not in ("train", "training", "test")
    spelled = ("validation", "evaluation", "eval", "held-out") if is_held_out else (match["split"],)
    return [*(() if rest in _GENERIC else (rest,)), *(f"{split} {rest}" for split in spelled)]


_GENERIC = frozenset({"loss", "step", "mean", "max", "min", "std", "total", "value", "score", "time"})


def _parts(key: str) -> list[str]:
    """The key, its last part, and both without a closing `/mean`."""
    short = key.removesuffix("/mean")
    last = short.rpartition("/")[2]
    generic = last in _GENERIC - {"loss", "time"}
    return [key, short, *([] if generic else [last])]


def setting_names(key: str) -> tuple[str, ...]:
    """How a text may call a config key: whole, by its last part, and spelled out."""
    last = key.rpartition(":")[2].lstrip("-").rpartition(".")[2]
    words = [word for word in re.split(r"[\s_\-]+", last.lower()) if word]
    spelled = " ".join(_SYNONYMS.get(word, word) for word in words)
    names = [key.lower(), " ".join(re.split(r"[\s_\-/=:`]+", key.lower())), " ".join(words), spelled]
    if words[:1] == ["kl"] and words[-1] == "coef":
        names += ["kl coef", "kl coefficient", "kl weight", "kl penalty coefficient"]
    if words == ["num", "repeat"]:
        names += ["group size", "repeats"]
    if len(words) > 2 and words[0] in _OPENING:
        names.append(" ".join(words[1:]))
    return tuple(dict.fromkeys(names))


def setting_words(key: str) -> frozenset[str]:
    """The words of a key's last part, by which a sentence is recognised to speak of it."""
    last = key.rpartition(":")[2].lstrip("-").rpartition(".")[2]
    return frozenset(word for word in re.split(r"[\s_\-]+", last.lower()) if word)
