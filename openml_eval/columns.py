"""Columns of texts and categories as numbers.

categories = categories_of(frame); numbers = as_numbers(new_frame, categories)
"""

from typing import Any

import numpy as np
import pandas
from pandas.api.types import infer_dtype

_KINDS = ("categorical", "string", "mixed-integer")  # integers and texts are mixed-integer


def categories_of(frame: pandas.DataFrame) -> dict[Any, Any]:
    """The categories of each column of texts or categories, by its name: of a categorical column in
    their own order, of others sorted."""
    return {
        name: pandas.Categorical(column).categories
        for name, column in frame.items()
        if infer_dtype(column) in _KINDS
    }


def as_numbers(frame: pandas.DataFrame, categories: dict[Any, Any]) -> pandas.DataFrame:
    """The frame with NaN for None and NA. Columns of these `categories` have the number of each
    cell's category, or NaN for one that is not among them."""
    frame = frame.where(frame.notna())
    for name in frame.columns.intersection(list(categories)):
        # -1 for what is not among the categories.
        codes = categories[name].get_indexer(frame[name].astype(object))
        frame[name] = np.where(codes < 0, np.nan, codes)
    return frame
