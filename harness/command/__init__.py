"""A launch command as text: its words, the programs it starts, the settings it gives them.

Rooms, in reading order: `shell` (words and where they stand), `programs` (which command is a program, which
words set variables), `settings` (flags, overrides and variables by name). Nothing is run or expanded.
"""
