{{- /* Pods of a StatefulSet have a label of its name and 11 characters more, which may have 63 in all. */ -}}
{{- define "callboard.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "callboard.selector" -}}
app.kubernetes.io/name: callboard
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "callboard.labels" -}}
{{ include "callboard.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "callboard.account" -}}
{{- .Values.serviceAccount.name | default (include "callboard.name" .) -}}
{{- end -}}

{{- define "callboard.apart" -}}
{{- if eq .Values.mode "apart" -}}yes{{- else if ne .Values.mode "sidecar" -}}{{- fail (printf "mode is %q: it may be sidecar or apart" .Values.mode) -}}{{- end -}}
{{- end -}}

{{- define "callboard.check" -}}
{{- if include "callboard.apart" . -}}
{{- if not .Values.tls.secretName }}{{ fail "mode apart needs tls.secretName, a secret of type kubernetes.io/tls" }}{{ end -}}
{{- if not .Values.tokens.secretName }}{{ fail "mode apart needs tokens.secretName, a secret with the key tokens" }}{{ end -}}
{{- else if not .Values.shim.image -}}
{{- fail "mode sidecar needs shim.image, a shim that speaks to Callboard" -}}
{{- end -}}
{{- end -}}

{{- define "callboard.container" -}}
{{- $apart := include "callboard.apart" . -}}
name: callboard
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  - serve
  {{- if $apart }}
  - --http=0.0.0.0:9080
  - --grpc=0.0.0.0:9090
  - --tls-cert=/etc/callboard/tls/tls.crt
  - --tls-key=/etc/callboard/tls/tls.key
  - --tokens=/etc/callboard/tokens/tokens
  {{- else }}
  - --http=127.0.0.1:9080
  - --grpc=127.0.0.1:9090
  {{- end }}
  - --data=/var/lib/callboard
  - --log-format={{ .Values.logFormat }}
  {{- if .Values.queues }}
  - --config=/etc/callboard/queues/queues.yaml
  {{- end }}
  {{- range $key, $value := .Values.settings }}
  {{- /* Helm reads numbers as floats, which it writes with an exponent where they are large. */}}
  - {{ printf "--set=%s=%s" $key (ternary ($value | toJson) ($value | toString) (kindIs "float64" $value)) | quote }}
  {{- end }}
  {{- with .Values.extraArgs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - {name: http, containerPort: 9080}
  - {name: grpc, containerPort: 9090}
{{- if $apart }}
startupProbe:
  httpGet: {path: /livez, port: http, scheme: HTTPS}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: http, scheme: HTTPS}
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: HTTPS}
  periodSeconds: 5
{{- else }}
# The doors are open to the loopback of the pod only, where the kubelet does not get: the program asks itself.
startupProbe:
  exec: {command: [/usr/bin/callboard, ready, --server=http://127.0.0.1:9080, --alive]}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  exec: {command: [/usr/bin/callboard, ready, --server=http://127.0.0.1:9080, --alive]}
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  exec: {command: [/usr/bin/callboard, ready, --server=http://127.0.0.1:9080]}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: data, mountPath: /var/lib/callboard}
  {{- if .Values.queues }}
  - {name: queues, mountPath: /etc/callboard/queues, readOnly: true}
  {{- end }}
  {{- if $apart }}
  - {name: tls, mountPath: /etc/callboard/tls, readOnly: true}
  - {name: tokens, mountPath: /etc/callboard/tokens, readOnly: true}
  {{- end }}
{{- end -}}
