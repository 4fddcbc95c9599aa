#!/bin/sh
# From a topic of one's own to a result read by SQL, as the README tells it.
# five_minutes.sh PYTHON SERVERS FOLDER: tidegate is that of PYTHON; a broker answers at SERVERS.
set -eu
tidegate="$1 -m tidegate" servers=$2
cd "$3"
began=$(date +%s)

step() { printf '%3d s  %s\n' $(($(date +%s) - began)) "$1"; }

step "a file of readings"
awk 'BEGIN { for (i = 0; i < 1000; i++) printf("{\"sensor\": \"s%d\", \"value\": %d, \"at\": %.0f}\n", i % 3, i % 10, 1767312000000 + i * 1000) }' > readings.jsonl

step "a topic, and the file in it"
$tidegate produce readings readings.jsonl --create 2 --key sensor --servers "$servers"
$tidegate topics --servers "$servers"

step "a job, without code"
cat > readings.toml <<TOML
[kafka]
servers = "$servers"
[input]
topics = ["readings"]
schema = "sensor string, value double, at bigint"
time = "at"
time_unit = "milliseconds"
lateness = "10 seconds"
[window]
size = "5 minutes"
by = ["sensor"]
[aggregates]
readings = "count"
mean = "mean(value)"
p90 = "quantile(value, 0.9)"
[output]
root = "tables"
TOML
$tidegate run windows --config readings.toml

step "where the records went"
$tidegate status tables --servers "$servers"

step "the result, by SQL"
"$1" - <<'PYTHON'
from deltalake import DeltaTable, QueryBuilder

sql = 'select sensor, sum(readings) as readings, max(p90) as p90 from w group by sensor order by 1'
found = QueryBuilder().register("w", DeltaTable("tables/windows")).execute(sql).read_all()
for sensor, readings, p90 in zip(*(column.to_pylist() for column in found.columns)):
    print(f"sql: {sensor} {readings} {p90}")
PYTHON
step "done"
