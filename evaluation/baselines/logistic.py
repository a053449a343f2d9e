"""Logistic regression fitted to each prefix, by scikit-learn.

predictions = logistic(xs, ys, queries)                              # [prompts, n], float64
"""

import numpy as np

from ..bootstrap import Floats


def logistic(xs: Floats, ys: Floats, queries: Floats) -> Floats:
    """The log odds of label 1 by scikit-learn's LogisticRegression, C = 1, after the pairs before
    each query; after labels of one class alone that label."""
    from sklearn.linear_model import LogisticRegression  # which takes a while

    predictions = np.zeros_like(ys)
    model = LogisticRegression(max_iter=1000)
    for prompt, labels in enumerate(ys):
        for k in range(1, len(labels)):
            # scikit-learn refuses to fit a single class.
            if np.ptp(labels[:k]) == 0:
                predictions[prompt, k] = labels[0]
                continue
            model.fit(xs[prompt, :k], labels[:k])
            predictions[prompt, k] = model.decision_function(queries[prompt, k : k + 1])[0]
    return predictions
