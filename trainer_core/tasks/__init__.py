"""Tasks: the items of the data set, read from files, from Hugging Face data sets, or made by built-in toys.

`reader.read_tasks(config)` is the one way in; `order.TaskOrder` says which tasks each step trains on.
"""
