#!/usr/bin/env bash
# Serves a model, asks it once by curl, and ends the server, which answers what waits first.
#
#   serve_and_ask.sh MODEL TEXT ...
#   FIELD=instances serve_and_ask.sh MODEL INSTANCE ...
#   ROUTE=/v1/chat/completions FIELD=messages serve_and_ask.sh MODEL MESSAGE ...
#
# MODEL is an export or a run. Each TEXT is a string of JSON, as in '"the third of May"'; of a model
# of pairs of texts a list, '["one", "other"]'. Settings by environment: PORT (0 takes a free one),
# and in MORE further fields of the request, '"stream": true'.
set -euo pipefail
model=${1:?usage: serve_and_ask.sh MODEL TEXT ...}
shift
texts=$(IFS=,; echo "$*")
log=$(mktemp)

quintain serve-model --model-dir="$model" --port="${PORT:-0}" 2> "$log" &
server=$!
trap 'kill "$server" 2> /dev/null || true; rm -f "$log"' EXIT

# The first line that it writes when it is ready has its address.
until url=$(grep -om1 'http://[^ ]*' "$log"); do
  kill -0 "$server" 2> /dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.1
done

address=${url%/*}
curl --silent --show-error --fail-with-body "${ROUTE:+$address}${ROUTE:-$url}" \
  -d "{\"${FIELD:-texts}\": [$texts]${MORE:+, $MORE}}"
echo
curl --silent --show-error --fail-with-body "$address/health"
echo

kill "$server"
wait "$server"
