"""The agent that carries an experiment from its plan to `finish.flag`.

`loop` is the whole of it on one screen: observe, decide, guard, record the intent, act, record the outcome.
What can be done stands in `actions`, what no policy may do in `guard` (with `allowed/` and `repeating`), how
it is done in `executor` (with `looking/`, `repairing/`, `excerpts`, `monitoring`, `verdict`).

Who decides: `playbook`, the built-in policy; `llm`, which stands on it and asks a model where `questions`
says so, about a `view` of the journal, offering `tools`; `policies` chooses. `approval` asks a person,
`replay` makes the decisions of a run once more.
"""
