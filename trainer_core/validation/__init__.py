"""Validation: pass rates over repeated episodes, the Markdown table, the record per task."""
