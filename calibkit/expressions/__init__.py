"""What a model computes of a row, as expressions: methods write them, exports print them.

An expression (`nodes`) is a small tree, a `Program` names several and says which columns they add.
"""
