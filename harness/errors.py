"""What a person must put right."""


class UserError(Exception):
    """Something that a person must put right; the message says what is wrong, where, and how to fix it.

    The command line prints the message and ends with status 2.
    """
