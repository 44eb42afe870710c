"""Decision boundaries over score and uncertainty.

(Arora, Merugu, Saladi, Rastogi, Leveraging uncertainty estimates to improve classifier performance.)

The rooms, each of which imports only those before it:

* `problem`: what is to be reached (goals, measures, values), on which tally.
* `solvers`: the methods, which choose a threshold for each level.
* `result`: the model, its figures, and what it decides.
* `certificate`: boundaries whose bound holds on new data.

Above them stand the choice among candidates (`choice`), segments, the comparison of methods, and
the two ways in: `run` for a fit, `application` for a model.
"""
