"""What the next launch will use, and the actions that change it.

`preparing` carries them out (config, environment, code); `worktree` and `private_copy` keep the copy of the
code in which a defect may be corrected, `author_paths` sees to it that nothing leads out of it, `ordering`
puts it all together for a launch.
"""
