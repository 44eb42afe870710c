#!/bin/sh
# Score a day's rows, look for drift, watch the boundary on what has its labels by now.
#
#     nightly.sh ROWS LABELLED FOLDER
#
# ROWS are today's scores; LABELLED are rows whose labels have come in since the last run (may be missing).
# What is written goes to FOLDER: alarms.csv, drift.json, watch.json, metrics.json, and a line of nightly.log for
# each thing that somebody should know.  STATE keeps from night to night what was counted of the labelled
# rows: begin a new one with a new boundary.  The exit code is that of the first step that failed, 0 if
# none did.
set -u

rows=$1 labelled=$2 folder=$3
model=${MODEL:-boundary.json}
state=${STATE:-watch.state}
least=${LEAST:-0.7} # the precision that is promised, each night
pause=${PAUSE:-60}
worst=0
mkdir -p "$folder/refused"

tell() {
    printf '%s %s\n' "$(date -u +%FT%TZ)" "$*" >> "$folder/nightly.log"
    echo "$*" >&2 # cron mails what is printed
}

# Run a command again, up to three times, while it ends in 5: disk, memory, a lost cluster.
patiently() {
    for try in 1 2 3; do
        "$@" && return 0
        code=$?
        [ "$code" -eq 5 ] && [ "$try" -lt 3 ] || return "$code"
        sleep "$pause"
    done
}

# What to do at each exit code; the first failure is the script's own.
after() {
    code=$1 step=$2 from=${3:-$rows}
    [ "$worst" -ne 0 ] || worst=$code
    case $code in
        0) return 0 ;;
        1) tell "$step: a gate failed; the output is there, somebody should look" ;;
        2) tell "$step: wrong option, column or file; mend this script" ;;
        3) tell "$step: bad data; $from is set aside"; cp "$from" "$folder/refused/" ;;
        4) tell "$step: nothing meets the bound" ;;
        5) tell "$step: disk, memory or network failed three times" ;;
        *) tell "$step: ended in $code" ;;
    esac
    return "$code"
}

patiently calibkit apply "$model" "$rows" --selected --keep id,score -q -o "$folder/alarms.csv"
after $? apply || exit "$worst" # without scores there is nothing to watch

patiently calibkit drift "$model" "$rows" -q -o "$folder/drift.json" \
    --fail-if 'psi_score.low>0.1' --fail-if 'psi_uncertainty.low>0.1'
after $? drift

if [ -e "$labelled" ]; then
    patiently calibkit watch "$model" "$labelled" --state "$state" --precision "$least" -q \
        -o "$folder/watch.json" --fail-if alarm
    after $? watch "$labelled"
    patiently calibkit evaluate "$labelled" --boundary "$model" -q -o "$folder/metrics.json"
    after $? evaluate "$labelled"
fi
exit "$worst"
