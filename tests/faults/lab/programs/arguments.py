"""A command line with a misspelt option."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float)
parser.add_argument("--steps", type=int)
parser.parse_args()
