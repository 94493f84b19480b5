"""Keras 3 on PyTorch: points inside and outside of a circle."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy

keras.utils.set_random_seed(0)
points = numpy.random.uniform(-1, 1, (2000, 2)).astype("float32")
inside = (numpy.hypot(*points.T) < 0.8).astype("float32")
model = keras.Sequential([keras.layers.Dense(32, "relu"), keras.layers.Dense(1, "sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(points, inside, batch_size=32, epochs=6, validation_split=0.2)
