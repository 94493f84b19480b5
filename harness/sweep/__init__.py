"""Ablation sweeps: many blueprints from one, run side by side on one machine, compared with honest
statistics.

Reading order: `types` (plan, needs, leases, jobs), `spec` (what a person wrote), `design` (points and runs),
`varying` (a run's own blueprint and config), `snapshot` (what all runs share), `confounds` (what else
differs),
`folder` (files of a sweep), `state` (the fold of its journal), `hosts` (where runs run), `leader` (the
queue).
"""
