"""LightGBM: a regression with two sets that are watched."""

import lightgbm
import numpy

rng = numpy.random.default_rng(0)
table = rng.normal(size=(2000, 8))
label = table[:, 0] * table[:, 1] + 0.3 * rng.normal(size=2000)
train = lightgbm.Dataset(table[:1500], label[:1500])
test = lightgbm.Dataset(table[1500:], label[1500:], reference=train)
lightgbm.train(
    {"objective": "regression", "metric": ["l2", "l1"], "num_leaves": 15, "num_threads": 1},
    train,
    num_boost_round=50,
    valid_sets=[train, test],
    valid_names=["training", "valid_1"],
    callbacks=[lightgbm.log_evaluation(5)],
)
