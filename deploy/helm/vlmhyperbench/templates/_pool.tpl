{{/* The values of a pool: its own over those of `poolDefaults`, except that resources are replaced whole. */}}
{{- define "vlmhyperbench.pool" -}}
{{- $given := index .root.Values.inferencePools .pool }}
{{- $merged := mustMergeOverwrite (dict) (deepCopy .root.Values.poolDefaults) (deepCopy $given) }}
{{- toYaml (set $merged "resources" (coalesce $given.resources .root.Values.poolDefaults.resources)) }}
{{- end }}
