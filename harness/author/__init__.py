"""From words to an experiment: a model fills the templates, code checks, a person reads what was assumed.

In reading order: `request_text` (what code can tell from a request, and what a terminal is asked without a
model), `calls` (the model's tools), `lookups` (what it may look at), `draft` (what was
rendered, what a model may not decide, `harness check` of it), `draft_session` (carries calls out), `publish`
(the folder, where each value came from, and what is kept of a failure).

A request goes `Brief` → `DraftSession` → `await talk(session, …)` → `hand_over(…)`. Used by `harness new`.
"""
