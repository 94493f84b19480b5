"""Labelled logs of real failures and of healthy trainings (`index.jsonl`), and their reader (`labels`)."""
