{{/* Rights of a pod: those of a user without a name, and no token of the cluster. */}}
{{- define "quintain.pod" -}}
# Trials save themselves before the pod ends.
terminationGracePeriodSeconds: 600
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
{{- end }}
