"""Ultralytics: the smallest YOLO looks for white squares."""

from pathlib import Path

import cv2
import numpy
from ultralytics import YOLO

rng = numpy.random.default_rng(0)
for split, images in (("train", 64), ("val", 8)):
    for kind in ("images", "labels"):
        Path("squares", kind, split).mkdir(parents=True, exist_ok=True)
    for at in range(images):
        x, y = rng.integers(16, 48, 2)
        image = rng.integers(0, 80, (64, 64, 3), dtype=numpy.uint8)
        image[y - 16 : y + 16, x - 16 : x + 16] = 255
        cv2.imwrite(f"squares/images/{split}/{at}.png", image)
        Path(f"squares/labels/{split}/{at}.txt").write_text(f"0 {x / 64} {y / 64} 0.5 0.5\n")
places = f"path: {Path.cwd()}/squares\ntrain: images/train\nval: images/val\nnames: [square]\n"
Path("squares.yaml").write_text(places)
options = {"imgsz": 64, "batch": 8, "workers": 0, "device": "cpu", "amp": False, "plots": False}
steps = {"epochs": 18, "optimizer": "AdamW", "lr0": 0.003, "warmup_epochs": 0, "mosaic": 0, "scale": 0}
YOLO("yolo11n.yaml").train(data="squares.yaml", **options, **steps)
