"""Transfer to real tables, and trained models as scikit-learn estimators (`estimators.py`)."""
