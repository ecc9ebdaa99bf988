#!/usr/bin/env bash
# Fires requests that schemathesis makes from the description at a running server: no 5xx, and no answer outside of the
# description. Usage: fuzz.sh PROGRAM [SECONDS]. Where schemathesis cannot be had it is skipped, with exit status 0; it fails where
# CI is "true".
set -euo pipefail
cd "$(dirname "$0")/../../.."
program=$(realpath "$1")
seconds=${2:-80}
venv=target/schemathesis

if ! [ -x "$venv/bin/schemathesis" ]; then
  if ! command -v python3 >/dev/null ||
    ! python3 -m venv "$venv" ||
    ! timeout 400 "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 5 'schemathesis>=4.32,<5'; then
    rm -rf "$venv"
    if [ "${CI:-}" = true ]; then
      echo "schemathesis cannot be installed: it needs python3 with venv and a package registry, and with CI=true it has to be there" >&2
      exit 1
    fi
    echo "skipped: schemathesis needs python3 with venv, and a package registry" >&2
    exit 0
  fi
fi

work=$(mktemp -d)
"$program" serve --ephemeral --http 127.0.0.1:0 --grpc off >"$work/ready" 2>"$work/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 600); do
  grep -q ready "$work/ready" && break
  sleep 0.1
done
url=http://$(sed 's/.* http=\([^ ]*\) .*/\1/' "$work/ready")

# Something to be asked about.
post() {
  curl --silent --show-error --fail --output /dev/null -H 'Content-Type: application/json' "$url/si/v1/rm$1" --data "$2"
}
fill() {
  post "" '{"rmID": "rm-1", "config": "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: \"*\"\n        queues:\n          - name: batch\n            resources:\n              max: {memory: 8G, vcore: 4}\n            limits:\n              - limit: all\n                users: [\"*\"]\n                maxresources: {memory: 6G}\n"}'
  post /rm-1/nodes '{"nodes": [{"nodeID": "node-1", "action": "CREATE", "attributes": {"si/hostname": "host-1"},
    "schedulableResource": {"resources": {"memory": {"value": "16000000000"}, "vcore": {"value": "8000"}}}}]}'
  post /rm-1/applications '{"new": [{"applicationID": "app-1", "queueName": "root.batch",
    "ugi": {"user": "alice", "groups": ["staff"]}}]}'
  post /rm-1/allocations '{"allocations": [
    {"allocationKey": "task-1", "applicationID": "app-1", "resourcePerAlloc": {"resources": {"memory": {"value": "1000000000"}}}},
    {"allocationKey": "task-2", "applicationID": "app-1", "resourcePerAlloc": {"resources": {"memory": {"value": "9000000000"}}}},
    {"allocationKey": "other", "nodeID": "node-1", "allocationTags": {"foreign": "default"},
      "resourcePerAlloc": {"resources": {"memory": {"value": "1000000"}}}}]}'
}
# Who waits for what never comes is answered when the time is over, which is made short.
cat >"$work/schemathesis.toml" <<'END'
[[operations]]
include-path-regex = "/wait$"
parameters = { "query.timeout" = "100ms" }
END
run() {
  "$venv/bin/schemathesis" --config-file "$work/schemathesis.toml" run "$url/api/v1/openapi.json" --no-color --request-timeout 10 --workers 1 \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance \
    "$@"
}
fill
# What there is, by the examples of the description. DELETE would end it.
run --phases examples --exclude-method DELETE --exclude-path-regex '/(stream|ws|journal)$'
# What there is not, what is wrong, and what nobody thought of. What goes on for ever would only be waited for.
run --phases coverage,fuzzing --max-examples 30 --max-time "$seconds" --exclude-path-regex '/(stream|ws|journal)$' \
  --exclude-operation-id get_api_v1_events --exclude-operation-id get_api_v1_audit
curl --silent --fail "$url/healthz" >/dev/null || { echo "the server is gone" >&2; tail "$work/log" >&2; exit 1; }
