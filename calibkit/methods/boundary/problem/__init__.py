"""What is to be reached, and on which rows: goals, values, the tally to choose from."""
