"""Rollouts: from tasks to judged episodes.

`single_turn.py` asks one question and judges one answer; `workflow_rollout.py` runs many episodes of a user's
workflow at once: `execution.py` (thread or process) → `failures.py` and `abnormal.py` (what became of it) →
`progress.py` and `metrics.py` (what a person sees of it).
"""
