"""Ablation sweeps: many blueprints from one, run side by side on one machine, compared with honest
statistics.

Reading order. The plan: `types` (plan, needs, leases, jobs), `values`, `spec` (what a person wrote), `design`
(points and runs), `forecast` (what it takes), `proposal` and `proposing` (a model plans one). The folder:
`folder`, `varying` (a run's own blueprint and config), `snapshot` and `shared_environment` (what all runs
share), `confounds` and `drift` (what else differs), `making` (all of it written). The queue: `hosts` (where
runs run), `state` (the fold of the journal), `sweep`, `jobs`, `carrying` (one run), `leader` (all of them),
`standing` and `steps` (what a display shows). The end: `outcomes`, `reporting`, `narrating`, `ending`,
`verifying` and `rebuilding`.
"""
