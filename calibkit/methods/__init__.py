"""Each method: options, rows and summaries in, a model out; none knows another."""
