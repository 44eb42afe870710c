"""Which module finishes the states of which command."""

#: Where the function ``finish_state(console, state, memory, threads)`` of each kind is.
FINISHERS = {
    "calibrate": "calibrate_run",
    "evaluate": "evaluate_run",
    "hetcal": "hetcal_run",
    "alpha-cal": "alpha_cal_run",
    "calibrate --probs": "calibrate_classes",
}
