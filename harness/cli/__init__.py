"""Typer commands, one small file per group: they parse, call and print, and hold no logic."""
