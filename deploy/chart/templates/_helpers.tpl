{{- define "tenon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "tenon.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "tenon.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "tenon.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "tenon.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "tenon.fullname" .) }}
{{- end }}

{{- define "tenon.selectorLabels" -}}
app.kubernetes.io/name: {{ include "tenon.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tenon.labels" -}}
{{ include "tenon.selectorLabels" . }}
app.kubernetes.io/part-of: tenon
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Feature gates as the worker reads them: NodeRepair=true,NodeOverlay=false,DRAEFA=false. */ -}}
{{- define "tenon.gates" -}}
{{- $gates := list }}
{{- range $name, $on := . }}
{{- if not (kindIs "invalid" $on) }}
{{- $first := ternary 3 1 (or (hasPrefix "dra" $name) (hasPrefix "vpa" $name)) }}
{{- $gates = append $gates (printf "%s%s=%v" (substr 0 $first $name | upper) (substr $first -1 $name) $on) }}
{{- end }}
{{- end }}
{{- join "," $gates }}
{{- end }}

{{- /* Every setting that has a value, as a variable. files/settings.yaml knows the names. As in Karpenter's chart, values may be
templates. */ -}}
{{- define "tenon.environment" -}}
{{- $settings := .Values.settings }}
{{- $names := .Files.Get "files/settings.yaml" | fromYaml }}
{{- if not (tpl ($settings.clusterName | default "") .) }}
{{- fail "settings.clusterName is required: set it to the name of the cluster." }}
{{- end }}
{{- range $value, $variable := $names }}
{{- $given := get $settings $value }}
{{- /* Helm reads the numbers of a file as floats, which from a million on are written as 1e+06. */ -}}
{{- if and (kindIs "float64" $given) (eq (toString (floor $given)) (toString $given)) }}
{{- $given = int64 $given }}
{{- end }}
{{- if and (hasKey $settings $value) (not (kindIs "invalid" $given)) (ne (toString $given) "") }}
{{ $variable }}: {{ tpl (toString $given) $ | quote }}
{{- end }}
{{- end }}
{{- with include "tenon.gates" $settings.featureGates }}
FEATURE_GATES: {{ . | quote }}
{{- end }}
{{- with include "tenon.gates" $settings.awsFeatureGates }}
AWS_FEATURE_GATES: {{ . | quote }}
{{- end }}
METRICS_PORT: {{ .Values.controller.metrics.port | quote }}
HEALTH_PROBE_PORT: {{ .Values.controller.healthProbe.port | quote }}
DISABLE_WEBHOOK: {{ not .Values.webhook.enabled | quote }}
WEBHOOK_PORT: {{ .Values.webhook.port | quote }}
KARPENTER_SERVICE: {{ include "tenon.fullname" . | quote }}
LOG_LEVEL: {{ .Values.logLevel | quote }}
LOG_OUTPUT_PATHS: {{ join "," .Values.logOutputPaths | quote }}
LOG_ERROR_OUTPUT_PATHS: {{ join "," .Values.logErrorOutputPaths | quote }}
TEMPORAL_ADDRESS: {{ .Values.temporal.address | quote }}
TEMPORAL_NAMESPACE: {{ .Values.temporal.namespace | quote }}
{{- with .Values.aws.region }}
AWS_REGION: {{ . | quote }}
{{- end }}
{{- end }}

{{- /* Changes a term of an affinity, or a spread constraint: one without a labelSelector means the pods of this release. */ -}}
{{- define "tenon.selectOwnPods" -}}
{{- if not (hasKey .term "labelSelector") }}
{{- $_ := set .term "labelSelector" (dict "matchLabels" (include "tenon.selectorLabels" .root | fromYaml)) }}
{{- /* A new version's pods start before those of the earlier one leave, so only pods of one version keep apart. */ -}}
{{- if and .keepsApart .root.Values.workerController.enabled (not (hasKey .term "matchLabelKeys")) }}
{{- $_ := set .term "matchLabelKeys" (list "temporal.io/build-id") }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tenon.topologySpreadConstraints" -}}
{{- $constraints := deepCopy .Values.topologySpreadConstraints }}
{{- range $constraints }}
{{- $_ := include "tenon.selectOwnPods" (dict "root" $ "term" . "keepsApart" true) }}
{{- end }}
{{- toYaml $constraints }}
{{- end }}

{{- define "tenon.affinity" -}}
{{- $affinity := deepCopy (.Values.affinity | default dict) }}
{{- range $kind := list "podAffinity" "podAntiAffinity" }}
{{- $terms := dig $kind "requiredDuringSchedulingIgnoredDuringExecution" list $affinity }}
{{- range dig $kind "preferredDuringSchedulingIgnoredDuringExecution" list $affinity }}
{{- $terms = append $terms .podAffinityTerm }}
{{- end }}
{{- range $terms }}
{{- $_ := include "tenon.selectOwnPods" (dict "root" $ "term" . "keepsApart" (eq $kind "podAntiAffinity")) }}
{{- end }}
{{- end }}
{{- /* Terms are alternatives: each must exclude the nodes that this worker manages, unless it names them itself. */ -}}
{{- $label := "karpenter.sh/nodepool" }}
{{- $unmanaged := dict "key" $label "operator" "DoesNotExist" }}
{{- $required := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" dict $affinity | default dict }}
{{- $terms := list }}
{{- range ($required.nodeSelectorTerms | default (list dict)) }}
{{- $names := list }}
{{- range .matchExpressions }}
{{- $names = append $names .key }}
{{- end }}
{{- if has $label $names }}
{{- $terms = append $terms . }}
{{- else }}
{{- $terms = append $terms (merge (dict "matchExpressions" (append (.matchExpressions | default list) $unmanaged)) .) }}
{{- end }}
{{- end }}
{{- $node := dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) }}
{{- toYaml (mergeOverwrite $affinity (dict "nodeAffinity" $node)) }}
{{- end }}
