"""The actions that only look: text of bounded size, secrets masked, out of a result folder and a codebase.

`look` carries them out; `log_search` and `metric_table` make the longer texts. All of them are bounded and
masked by `harness.agent.excerpts`.
"""
