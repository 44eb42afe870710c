"""Models as code that runs elsewhere: SQL, polars, plain Python.

Each kind of model is described once, as a program of `calibkit.expressions`, by the function
`translate` of the module that has its name; each language is one module that writes programs.
"""
