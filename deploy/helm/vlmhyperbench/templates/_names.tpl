{{/* Names, labels and images, which all objects share. */}}

{{- define "vlmhyperbench.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- trunc 26 $name | trimSuffix "-" -}}
{{- end }}

{{- define "vlmhyperbench.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "vlmhyperbench.labels" -}}
{{ include "vlmhyperbench.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "vlmhyperbench.image" -}}
{{- with .root.Values.image }}
{{- with .registry }}{{ . }}/{{ end }}{{ .repository }}-{{ $.image }}:{{ .tag | default $.root.Chart.AppVersion }}
{{- end }}
{{- end }}
