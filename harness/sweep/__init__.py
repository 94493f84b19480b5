"""Ablation sweeps: many runs from one blueprint, side by side on one machine, compared with statistics.

Reading order. What is asked: `values`, `spec` (the one schema), `spec_text` (its texts). The plan: `plan`,
`design`, `forecast`; `proposal` (a model plans one). The folder: `folder`, `points` (a run is the blueprint
with overrides), `reach` (keys that nothing reads), `snapshot` (what all runs share), `create` (all of it).
The queue: `hosts` (where runs run), `events`, `state` (the fold of the journal), `run_files` (what a run's
files say), `run_supervisor` (one run), `scheduler` (all of them), `status` (what a display shows). The end:
`reporting`, `narrating`, `ending`, `verify`.
"""
