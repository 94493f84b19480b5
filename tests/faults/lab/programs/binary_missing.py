"""Loads a compiled part whose library is not there."""

import ctypes

from training import train

train(1)
ctypes.CDLL("libcudart.so.11.0")
