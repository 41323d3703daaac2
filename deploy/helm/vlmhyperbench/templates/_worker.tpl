{{/*
A worker: a StatefulSet, so that a worker that comes back finds its environments and models, with its budget.
Takes root, component, image, account and the values of the worker.
*/}}
{{- define "vlmhyperbench.worker" -}}
{{- $values := .values }}
{{- $name := printf "%s-%s" (include "vlmhyperbench.fullname" .root) (kebabcase .component) }}
{{- $gpus := int ($values.gpus | default 0) }}
{{- $resources := $values.resources }}
{{- if $gpus }}
{{- $resources = mustMergeOverwrite (dict) (deepCopy $values.resources) (dict "limits" (mustMergeOverwrite (dict) $values.resources.limits (dict $values.gpuResource (toString $gpus)))) }}
{{- end }}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  labels: {{ include "vlmhyperbench.labels" . | nindent 4 }}
spec:
  {{- if not $values.scaling.enabled }}
  replicas: {{ $values.replicas }}
  {{- end }}
  serviceName: {{ include "vlmhyperbench.fullname" .root }}-workers
  podManagementPolicy: Parallel
  selector:
    matchLabels: {{ include "vlmhyperbench.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "vlmhyperbench.labels" . | nindent 8 }}
        vlmhyperbench/role: worker
    spec:
      {{- include "vlmhyperbench.pod" .root | nindent 6 }}
      # A worker finishes the requests in flight, and a job that does not end is given back.
      terminationGracePeriodSeconds: 60
      {{- with $values.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- if .root.Values.secrets.existingSecret }}
      initContainers:
        # Secrets are read from files of their owner's own, and the cluster's are links that a group may read.
        - name: secrets
          {{- include "vlmhyperbench.container" (dict "root" .root "image" .image "resources" (dict "requests" (dict "cpu" "50m" "memory" "64Mi") "limits" (dict "cpu" "500m" "memory" "128Mi"))) | nindent 10 }}
          command:
            - python
            - -c
            - |
              import pathlib, sys
              source, target = map(pathlib.Path, sys.argv[1:])
              for file in source.iterdir():
                  if not file.name.startswith("."):
                      copy = target / file.name
                      copy.unlink(missing_ok=True)
                      copy.touch(mode=0o600)
                      copy.write_bytes(file.read_bytes())
            - /etc/vlmhyperbench/secrets
            - /run/vlmhyperbench/secrets
          volumeMounts:
            - {name: secrets, mountPath: /etc/vlmhyperbench/secrets, readOnly: true}
            - {name: own-secrets, mountPath: /run/vlmhyperbench/secrets}
      {{- end }}
      containers:
        - name: {{ .image }}
          {{- include "vlmhyperbench.container" (dict "root" .root "image" .image "resources" $resources) | nindent 10 }}
          env:
            {{- include "vlmhyperbench.environment" (dict "root" .root "account" .account "settings" $values.settings) | nindent 12 }}
            - name: VLMHB_METRICS_PORT
              value: "9464"
            - name: VLMHB_WORKER_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            {{- if .root.Values.secrets.existingSecret }}
            - name: VLMHB_SECRETS_DIR
              value: /run/vlmhyperbench/secrets
            {{- end }}
          ports:
            - {name: metrics, containerPort: 9464}
          {{- include "vlmhyperbench.probes" .root | nindent 10 }}
          volumeMounts:
            {{- include "vlmhyperbench.mounts" .root | nindent 12 }}
            {{- if .root.Values.secrets.existingSecret }}
            - {name: own-secrets, mountPath: /run/vlmhyperbench/secrets, readOnly: true}
            {{- end }}
            {{- if $values.sharedMemory }}
            - {name: shared-memory, mountPath: /dev/shm}
            {{- end }}
      volumes:
        {{- include "vlmhyperbench.volumes" .root | nindent 8 }}
        {{- with .root.Values.secrets.existingSecret }}
        - name: secrets
          secret:
            secretName: {{ . }}
        - name: own-secrets
          emptyDir: {medium: Memory, sizeLimit: 1Mi}
        {{- end }}
        {{- with $values.sharedMemory }}
        - name: shared-memory
          emptyDir: {medium: Memory, sizeLimit: {{ . }}}
        {{- end }}
        {{- if not $values.home.isPersistent }}
        - name: home
          emptyDir:
            sizeLimit: {{ $values.home.size }}
        {{- end }}
  {{- if $values.home.isPersistent }}
  persistentVolumeClaimRetentionPolicy:
    whenDeleted: Delete
    whenScaled: Retain
  volumeClaimTemplates:
    - metadata:
        name: home
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $values.home.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests:
            storage: {{ $values.home.size }}
  {{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels: {{ include "vlmhyperbench.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{ include "vlmhyperbench.selector" . | nindent 6 }}
{{- end }}
