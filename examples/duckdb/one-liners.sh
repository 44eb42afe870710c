#!/bin/sh
# One-liners with DuckDB and pipes; each stands for itself.
set -eu
data=${DATA:-../../sample_data}
out=${OUT:-out}
mkdir -p "$out"

# The command of DuckDB, or the Python package as a stand-in: rows as CSV on standard output.
sql() {
    if command -v duckdb >/dev/null; then
        duckdb -csv -c "$1"
    else
        python3 -c 'import duckdb, sys
duckdb.sql("SET enable_progress_bar = false")
duckdb.sql(sys.argv[1]).write_csv("/dev/stdout")' "$1"
    fi
}

# Fit on a query: only the rows with enough evidence.
sql "SELECT score, uncertainty, label FROM '$data/calib.parquet' WHERE uncertainty < -2" |
    calibkit boundary - --precision 0.7 --method exact -q -o "$out/boundary.json"

# Apply between two queries: select, decide, count.
sql "SELECT id, score, uncertainty, label FROM '$data/test.parquet'" |
    calibkit apply "$out/boundary.json" - --keep id,label -q -o "$out/decided.parquet"
sql "SELECT decision, count(*) AS row_count, avg(label) AS share_positive
     FROM '$out/decided.parquet' GROUP BY decision ORDER BY decision" > "$out/counts.csv"
cat "$out/counts.csv"

# Compressed CSV through a pipe, only what is to be acted on, the ten surest first.
gzip -c "$data/scores.csv" | gunzip |
    calibkit apply "$out/boundary.json" - --selected --keep id,score -q |
    sort -t, -k2,2gr | head -10 > "$out/alarms.csv"

# Metrics as rows, for a query over all runs.
calibkit evaluate "$out/decided.parquet" --score margin --scale raw --decision decision -q -o "$out/run-1.csv"
sql "SELECT metric, value, low, high FROM '$out/run-*.csv'
     WHERE score = 'decision' AND metric IN ('precision', 'recall')" > "$out/query.csv"
cat "$out/query.csv"
