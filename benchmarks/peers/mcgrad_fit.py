"""MCGrad on a score and features, as one would call it: ``mcgrad_fit.py FILE``."""

import sys

import pandas as pd
from mcgrad import methods

frame = pd.read_parquet(sys.argv[1])
numbers = [name for name in frame.columns if name.startswith("feature_")]
model = methods.MCGrad(random_state=0)
model.fit(frame, "score", "label", numerical_feature_column_names=numbers)
