"""What the next launch will use, and the actions that change it.

`choosing` finds the built-in repairs of a failure; `preparing` carries repairs out (config, environment,
code; packages by `installing`, what is ours and in the way by `owned`); `worktree` and `private_copy` keep
the copy of the code in which a defect may be corrected, `author_paths` sees to it that nothing leads out of
it, `ordering` puts it all together for a launch.
"""
