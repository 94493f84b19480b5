"""`python -m harness`: the command line."""

from harness.cli.app import main

main()
