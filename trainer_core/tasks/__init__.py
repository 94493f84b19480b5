"""Tasks: the items of the data set, read from files, from Hugging Face data sets, made by built-in toys, or
written by an outside model (`generation`, with `documents` and `kept_model`).

`reader.read_tasks(config)` is the one way in; `order.TaskOrder` says which tasks each step trains on.
"""
