"""Ablation sweeps: many runs from one blueprint, side by side on one machine, compared with statistics.

Reading order. What is asked: `spec` (the one schema), `spec_text` (its texts). The plan: `plan` (and the
folder), `design`; `proposal` (a model plans one). The runs: `points` (a run is the blueprint with overrides),
`snapshot` (what all runs share), `create` (all of it). The queue: `hosts` (where runs run), `state` (the
journal and its fold), `run_files` (what a run's files say), `run_supervisor` (one run), `scheduler` (all of
them), `status` (what a display shows). The end: `reporting`, `next_experiment`, `verify`.
"""
