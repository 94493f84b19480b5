"""The actions that only look: text of bounded size, secrets masked, out of a result folder and a codebase.

`look` carries them out; `excerpts`, `log_search` and `metric_table` make the texts.
"""
