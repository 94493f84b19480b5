"""Validation: pass rates over repeated attempts, the Markdown table, the record per task."""
