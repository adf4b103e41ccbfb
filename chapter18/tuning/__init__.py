"""Search for hyperparameters that survives crashes, and read what it says (section 1).

    tuner = tuning.make_tuner(kt.RandomSearch, build, objective="val_accuracy", max_trials=8,
                              directory="searches", project_name="random", seed=1)
    tuner.search(x, y, validation_data=(x_val, y_val), epochs=5, verbose=0)
    tuning.trials_table(tuner)
    winner = tuning.retrain(tuner, tuning.best(tuner)[0], x=x, y=y, x_val=x_val, y_val=y_val)

Run it again after a crash, with the same arguments, and it goes on where it was.
"""

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
