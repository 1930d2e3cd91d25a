{{- define "flower-operator.selector" -}}
app.kubernetes.io/name: flower-operator
app.kubernetes.io/component: controller-manager
{{- end }}

{{- define "flower-operator.labels" -}}
{{ include "flower-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* A number of a values file is a float here, and would be printed as one. */ -}}
{{- define "flower-operator.image" -}}
{{- $tag := .Values.manager.image.tag | default .Chart.AppVersion -}}
{{- if not (kindIs "string" $tag) -}}
{{- $tag = int64 $tag | toString -}}
{{- end -}}
{{- $mark := hasPrefix "sha256:" $tag | ternary "@" ":" -}}
{{- print .Values.manager.image.repository $mark $tag -}}
{{- end }}

{{- /* Not empty if the cluster gives pods their users. */ -}}
{{- define "flower-operator.openshift" -}}
{{- if eq (toString .Values.openshift) "auto" -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" }}true{{ end -}}
{{- else if .Values.openshift -}}
true
{{- end -}}
{{- end }}

{{- define "flower-operator.manager-rules" -}}
{{- $rules := (.Files.Get "generated/manager.yaml" | fromYaml).rules -}}
{{- if .Values.taskExecutor.enable -}}
{{- $rules = concat $rules (.Files.Get "generated/task-executor-binding.yaml" | fromYaml).rules -}}
{{- end -}}
rules:
  {{- toYaml $rules | nindent 2 }}
{{- end }}

{{- /* Not empty if the API server is to ask whether an author may reach what a Federation does. */ -}}
{{- define "flower-operator.admission-policy" -}}
{{- if eq (toString .Values.admissionPolicy.enable) "auto" -}}
{{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}true{{ end -}}
{{- else if .Values.admissionPolicy.enable -}}
true
{{- end -}}
{{- end }}

{{- /* Whom every binding of the operator's own roles is for. */ -}}
{{- define "flower-operator.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: flower-operator-controller-manager
    namespace: {{ .Release.Namespace | quote }}
{{- end }}
