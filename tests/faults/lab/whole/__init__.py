"""Whole experiments that meet a real fault: those that must come to a good end after a repair, and those that
must not be repaired, because only a change of what is studied, or a person, could fix them."""
