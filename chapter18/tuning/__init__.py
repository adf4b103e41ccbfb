"""Search for hyperparameters that survives crashes, and read what it says (section 1)."""

from chapter18.tuning._cluster import ClusterProcess, run_cluster
from chapter18.tuning._executions import execution_seed
from chapter18.tuning._trials import best, best_epoch, trials_table
from chapter18.tuning._tuner import make_tuner
from chapter18.tuning._winners import Retrained, leaked_rows, restore, retrain, selection_bias

__all__ = [
    "ClusterProcess",
    "Retrained",
    "best",
    "best_epoch",
    "execution_seed",
    "leaked_rows",
    "make_tuner",
    "restore",
    "retrain",
    "run_cluster",
    "selection_bias",
    "trials_table",
]
