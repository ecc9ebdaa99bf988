#!/bin/sh
# Checks the chart: helm lint, what it makes of several values read into the types of the API, and the plain manifests, which are
# what it makes. `check.sh --write` writes those. Needs helm and go.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd check && go vet . && go build -o "$work/check" .)

helm lint --quiet chart --set shim.image=shim:1
release=callboard
make() {
  name=$1
  shift
  helm template "$release" chart --namespace scheduling --kube-version 1.31.0 "$@" > "$work/$name.yaml"
  printf '%s: ' "$name"
  "$work/check" < "$work/$name.yaml"
}
refused() {
  if helm template callboard chart --kube-version 1.31.0 "$@" > "$work/out" 2>&1; then
    echo "should be refused: $*" >&2
    exit 1
  fi
}
apart="--set mode=apart --set tls.secretName=callboard-tls --set tokens.secretName=callboard-tokens"
make sidecar --set shim.image=SHIM_IMAGE
# shellcheck disable=SC2086
make apart $apart --set networkPolicy.enabled=true
# shellcheck disable=SC2086
make all $apart --set networkPolicy.enabled=true --set serviceMonitor.enabled=true --set serviceMonitor.tokenSecret.name=viewer \
  --set-string 'queues=partitions: []' --set settings.log\\.level=DEBUG --set persistence.existingClaim=mine \
  --set settings.event\\.store\\.maxBytes=10737418240 --set 'settings.metrics\.queues=a: b #c' --set serviceAccount.create=false \
  --set 'networkPolicy.egress[0].ports[0].port=443' --set 'networkPolicy.readers[0].podSelector.matchLabels.app=prometheus' --set nodeSelector.disk=fast --set imagePullSecrets[0].name=x
grep -q -e '"--set=event.store.maxBytes=10737418240"' "$work/all.yaml"
# Names and texts that YAML would take for something else.
release=2030
printf '  # ours\npartitions: []\n\n' > "$work/queues"
make odd --namespace 2030 --set mode=apart --set-string tls.secretName=1,tokens.secretName=2e3,persistence.storageClass=3,priorityClassName=true \
  --set-string serviceAccount.name=4,serviceMonitor.tokenSecret.name=5 --set serviceMonitor.enabled=true --set-file queues="$work/queues"
make claim --namespace 2030 --set shim.image=x --set-string persistence.existingClaim=6
make bare --set shim.image=x --set persistence.enabled=false --set rbac.create=false --set podDisruptionBudget.enabled=false
refused
refused --set mode=apart
refused --set mode=beside --set shim.image=x
refused --set shim.image=x --set serviceMonitor.enabled=true
refused --set shim.image=x --set networkPolicy.enabled=true
refused --set shim.image=x --set replicas=3
refused --set shim.image=x --set persistence.sise=1Gi

for name in sidecar apart; do
  if [ "${1:-}" = --write ]; then
    grep -v 'helm.sh/chart\|managed-by: Helm' "$work/$name.yaml" > "manifests/$name.yaml"
  fi
  grep -v 'helm.sh/chart\|managed-by: Helm' "$work/$name.yaml" | diff - "manifests/$name.yaml" ||
    { echo "manifests/$name.yaml is not what the chart makes: deploy/kubernetes/check.sh --write" >&2; exit 1; }
done
