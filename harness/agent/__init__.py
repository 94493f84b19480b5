"""The agent that carries an experiment from its plan to `finish.flag`.

`loop` is the whole of it on one screen: observe, decide, guard, record the intent, act, record the outcome.
What can be done stands in `harness.actions`, what a policy sees in `harness.observation`, what no policy may
do in `harness.guard`, how it is done in `executor` (with `look` and what it shows: `excerpts`, `log_search`,
`metric_table`, `source_tree`, `installed`, `code_changes`, `trainer_keys`, `facts`; `disk_access`,
`monitoring`, `verdict`).

Who decides: `playbook`, the built-in policy; `llm`, which stands on it and asks a model where `questions`
says so, in a conversation whose memory is a `view` of the journal; `policies` chooses. `approval` asks
people and hears them, `narrating` adds words to a finished run, `replay` makes its decisions once more.
"""
