"""From words to an experiment: a model fills the templates, code checks, a person reads what was assumed.

In reading order: `words` (what code can tell from a request), `questions` (what a person is asked when there
is no model), `calls` (the model's tools), `draft` (what has been rendered, and what a model may not decide),
`looking` and `trainer_keys` (what it may look at), `checking` (`harness check` of a draft), `desk` (carries
calls out), `conversation` (the loop), `sources` (where each value came from), `handing_over` (the folder).

A request goes `Brief` → `Desk` → `await converse(…)` → `hand_over(…)`. Used by `harness new` only.
"""
