#!/bin/sh
# check.sh PROGRAM MODEL PATTERN...: runs PROGRAM on MODEL; it has to succeed and print a line for every PATTERN.
program=$1 model=$2
shift 2
if [ ! -r "$model" ]; then
    echo "SKIPPED: $model is not there"
    exit 77
fi
output=$("$program" "$model") || { echo "exit code $?"; exit 1; }
printf '%s\n' "$output"
for pattern; do
    printf '%s\n' "$output" | grep -Eq -e "$pattern" || { echo "no line matches: $pattern"; exit 1; }
done
