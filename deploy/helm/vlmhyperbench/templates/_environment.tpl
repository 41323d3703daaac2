{{/*
The settings of a process as variables; what is secret is only referred to. `account`: "owner" has the database's owner
and the pepper of keys, "housekeeper" the owner alone, "worker" the account with fewer rights where there is one.
*/}}

{{- define "vlmhyperbench.secretVariable" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}

{{- define "vlmhyperbench.environment" -}}
{{- $values := .root.Values }}
{{- $database := required "database.existingSecret is empty: name the Secret that has the URL of Postgres." $values.database.existingSecret }}
{{- $redis := required "redis.existingSecret is empty: name the Secret that has the URL of Redis." $values.redis.existingSecret }}
- name: HOME
  value: {{ $values.home }}
- name: XDG_CACHE_HOME
  value: {{ $values.home }}/cache
- name: VLMHB_HOME
  value: {{ $values.home }}
{{- $isWorker := and (eq .account "worker") $values.database.workerUrlKey }}
{{ include "vlmhyperbench.secretVariable" (dict "name" "VLMHB_DATABASE_URL" "secret" $database "key" (ternary $values.database.workerUrlKey $values.database.urlKey (not (empty $isWorker)))) }}
{{ include "vlmhyperbench.secretVariable" (dict "name" "VLMHB_REDIS_URL" "secret" $redis "key" $values.redis.urlKey) }}
- name: VLMHB_STORAGE_URL
  value: {{ required "storage.url is empty: write s3://BUCKET/PREFIX." $values.storage.url }}
- name: VLMHB_STORAGE_CACHE_MAX_BYTES
  value: {{ int64 $values.storage.cacheMaxBytes | quote }}
{{- with $values.storage.endpointUrl }}
- name: VLMHB_STORAGE_S3__ENDPOINT_URL
  value: {{ . }}
{{- end }}
{{- with $values.storage.region }}
- name: VLMHB_STORAGE_S3__REGION
  value: {{ . }}
{{- end }}
{{- with $values.storage.existingSecret }}
{{ include "vlmhyperbench.secretVariable" (dict "name" "VLMHB_STORAGE_S3__ACCESS_KEY_ID" "secret" . "key" $values.storage.accessKeyIdKey) }}
{{ include "vlmhyperbench.secretVariable" (dict "name" "VLMHB_STORAGE_S3__SECRET_ACCESS_KEY" "secret" . "key" $values.storage.secretAccessKeyKey) }}
{{- end }}
{{- if $values.authorities.storage }}
- name: VLMHB_STORAGE_S3__CA_FILE
  value: /etc/vlmhyperbench/authorities/{{ $values.authorities.storage }}
{{- end }}
{{- if $values.authorities.servers }}
- name: VLMHB_TLS_CA_FILE
  value: /etc/vlmhyperbench/authorities/{{ $values.authorities.servers }}
{{- end }}
{{- if eq .account "owner" }}
{{ include "vlmhyperbench.secretVariable" (dict "name" "VLMHB_KEY_PEPPER" "secret" (required "keys.existingSecret is empty: name the Secret that has the pepper and the API key." $values.keys.existingSecret) "key" $values.keys.pepperKey) }}
{{- with $values.database.workerUrlKey }}
{{ include "vlmhyperbench.secretVariable" (dict "name" "VLMHB_WORKER_DATABASE_URL" "secret" $database "key" .) }}
{{- end }}
{{- end }}
{{- $own := list "VLMHB_HOME" "VLMHB_DATABASE_URL" "VLMHB_REDIS_URL" "VLMHB_WORKER_DATABASE_URL" "VLMHB_DATABASE_REPLICA_URL" "VLMHB_KEY_PEPPER" "VLMHB_STORAGE_URL" "VLMHB_TLS_CA_FILE" "VLMHB_METRICS_PORT" "VLMHB_WORKER_NAME" "VLMHB_SECRETS_DIR" "VLMHB_API_HOST" "VLMHB_API_PORT" "VLMHB_API_TLS_CERT" "VLMHB_API_TLS_KEY" }}
{{- range $name, $value := mustMergeOverwrite (dict) $values.settings (.settings | default dict) }}
{{- if or (has $name $own) (hasPrefix "VLMHB_STORAGE_" $name) }}
{{- fail (printf "settings.%s: the chart sets this variable itself, from other values; remove it." $name) }}
{{- end }}
{{- if and (kindIs "float64" $value) (eq (floor $value) $value) }}
{{- $value = int64 $value }}
{{- end }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}
