"""The agent that carries an experiment from its plan to `finish.flag`.

`loop` is the whole of it on one screen: observe, decide, guard, record the intent, act, record the outcome.
`actions` is what can be done, `guard` what no policy may do, `playbook` the built-in policy, `verdict` how
an end is judged.
"""
