"""Tracking: the console line, `metrics.jsonl`, `environment.json`, and optional outside services."""
