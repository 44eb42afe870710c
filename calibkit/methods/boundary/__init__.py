"""Decision boundaries over score and uncertainty.

(Arora, Merugu, Saladi, Rastogi, Leveraging uncertainty estimates to improve classifier performance.)

The rooms, each of which imports only those before it:

* `problem`: what is to be reached (goals, measures), what columns say of rows, what is found.
* `solvers`: the methods, which choose a threshold for each level, and what they need of the rows.
* `result`: the model, its figures, and a fit that leads to it; what a model decides is `application`.
* `certificate`: boundaries whose bound holds on new data.

Above them stand the choice among candidates (`choice`), segments, the comparison of methods, how
a boundary is shown (`view`), and the way in: `run`.
"""
