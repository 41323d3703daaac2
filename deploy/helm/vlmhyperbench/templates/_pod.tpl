{{/* What every pod has: nobody's rights, no token of the cluster, a root file system that nothing writes. */}}

{{- define "vlmhyperbench.pod" -}}
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
automountServiceAccountToken: false
# Variables of services would be taken for settings: a service vlmhb-api would set VLMHB_API_PORT.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .Values.podSecurity.runAsUser }}
  runAsGroup: {{ .Values.podSecurity.runAsUser }}
  fsGroup: {{ .Values.podSecurity.fsGroup }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "vlmhyperbench.container" -}}
image: {{ include "vlmhyperbench.image" . }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources: {{ toYaml .resources | nindent 2 }}
{{- end }}

{{- define "vlmhyperbench.mounts" -}}
- name: home
  mountPath: {{ .Values.home }}
- name: tmp
  mountPath: /tmp
{{- if .Values.authorities.existingConfigMap }}
- name: authorities
  mountPath: /etc/vlmhyperbench/authorities
  readOnly: true
{{- end }}
{{- end }}

{{- define "vlmhyperbench.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 2Gi
{{- with .Values.authorities.existingConfigMap }}
- name: authorities
  configMap:
    name: {{ . }}
{{- end }}
{{- end }}

{{/* Probes by the port of metrics, which every service has. */}}
{{- define "vlmhyperbench.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}
