"""XGBoost: a table of numbers, with a test set that is watched."""

import numpy
import xgboost

rng = numpy.random.default_rng(0)
table = rng.normal(size=(2000, 8))
label = (table[:, 0] * table[:, 1] + 0.3 * rng.normal(size=2000) > 0).astype(int)
train, test = (xgboost.DMatrix(table[rows], label[rows]) for rows in (slice(1500), slice(1500, None)))
parameters = {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "max_depth": 4, "nthread": 1}
xgboost.train(parameters, train, num_boost_round=40, evals=[(train, "train"), (test, "test")])
