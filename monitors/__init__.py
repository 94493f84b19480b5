"""Eyes on a running process: start it so that its end is always known, wait for it, read what it prints.

Imports nothing from `harness` or `trainer_core`. What other rooms use: `files.AttemptFiles`, `tmux.Session`,
`launch.LaunchSpec`, `launch.launch` and `launch.stop`, `wait.Waiter`, `watch.Watch`, `logs`, `metrics`,
`resources`. For people and other agents: `python -m monitors.run` and `python -m monitors.wait`. What runs
beside the training (`supervise` and what it imports) uses the standard library only.
"""
