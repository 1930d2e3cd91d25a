"""Nodes without machines: what kwok is told to make of Nodes and of the pods on them.

A pod that is scheduled is Running and Ready at once, and gone at once when it is deleted. The
annotation test/fate gives it another fate, and may be changed or removed while the pod exists:

- not-ready: runs, but its readiness probe fails
- crash-loop: ends with exit code 1 and "bad flag", and waits for its next start
- out-of-memory: is killed for its memory, and waits for its next start
- image-missing: its image cannot be pulled
- flapping: runs and is ready for two seconds, waits after a crash for two seconds, and so on

It befalls all containers of the pod, or the one that the annotation test/fate-container names. An
image whose tag is `missing` cannot be pulled, whatever the annotations say.
A pod with a fate has a condition test/fate too: by it kwok knows what the pod already shows.
"""

import json
from typing import Any

FATE = "test/fate"
FATE_CONTAINER = "test/fate-container"

Document = dict[str, Any]

_FLAP_MILLISECONDS = 2000
_LEAVE_MILLISECONDS = 2000

# With a configuration of any kind kwok has no defaults for these, and needs all of them.
_WORKERS = {
    "podPlayStageParallelism": 16,
    "podsOnNodeSyncParallelism": 4,
    "nodePlayStageParallelism": 4,
    "nodeLeaseParallelism": 4,
}

_CAPACITY = {"cpu": "1000", "memory": "4Ti", "ephemeral-storage": "4Ti", "pods": "2000"}

_NODE_STATUS = """
conditions:
{{ range NodeConditions }}
- type: {{ .type }}
  status: {{ .status | Quote }}
  reason: {{ .reason }}
  message: {{ .message }}
  lastHeartbeatTime: {{ Now | Quote }}
  lastTransitionTime: {{ Now | Quote }}
{{ end }}
"""

# Conditions merge by type; the container statuses replace those that there were.
_POD_STATUS = """
{{ $pod := . }}
{{ $now := Now | Quote }}
{{ $annotations := or .metadata.annotations dict }}
{{ $fate := or (index $annotations "test/fate") "healthy" }}
{{ range .spec.containers }}
  {{ if hasSuffix ":missing" .image }}{{ $fate = "image-missing" }}{{ end }}
{{ end }}
{{ $only := index $annotations "test/fate-container" }}
{{ $flapping := eq $fate "flapping" }}
{{ $look := $fate }}
{{ if $flapping }}
  {{ $look = "healthy" }}
  {{ range .status.conditions }}
    {{ if and (eq .type "Ready") (eq .status "True") }}{{ $look = "crash-loop" }}{{ end }}
  {{ end }}
{{ end }}
{{ $unready := list }}

containerStatuses:
{{ range .spec.containers }}
{{ $name := .name }}
{{ $hit := or (not $only) (eq $only $name) }}
{{ $state := ternary $look "healthy" $hit }}
{{ $restarts := 0 }}
{{ range $pod.status.containerStatuses }}
  {{ if eq .name $name }}{{ $restarts = .restartCount }}{{ end }}
{{ end }}
{{ if and $flapping $hit (eq $state "healthy") }}{{ $restarts = add $restarts 1 }}{{ end }}
{{ if and (not $flapping) (has $state (list "crash-loop" "out-of-memory")) }}
  {{ $restarts = 3 }}
{{ end }}
{{ if ne $state "healthy" }}{{ $unready = append $unready $name }}{{ end }}
- name: {{ $name }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: {{ eq $state "healthy" }}
  started: {{ has $state (list "healthy" "not-ready") }}
  restartCount: {{ $restarts }}
  {{ if eq $state "out-of-memory" }}
  lastState: {terminated: {exitCode: 137, reason: OOMKilled,
    startedAt: {{ $now }}, finishedAt: {{ $now }}}}
  {{ else if or (eq $state "crash-loop") (and $flapping $hit) }}
  lastState: {terminated: {exitCode: 1, reason: Error, message: bad flag,
    startedAt: {{ $now }}, finishedAt: {{ $now }}}}
  {{ end }}
  {{ if has $state (list "healthy" "not-ready") }}
  state: {running: {startedAt: {{ $now }}}}
  {{ else if has $state (list "crash-loop" "out-of-memory") }}
  state: {waiting: {reason: CrashLoopBackOff, message: {{ printf
    "back-off 40s restarting failed container=%s pod=%s_%s(%s)"
    $name $pod.metadata.name $pod.metadata.namespace $pod.metadata.uid | Quote }}}}
  {{ else if eq $state "image-missing" }}
  state: {waiting: {reason: ImagePullBackOff, message: {{
    printf "Back-off pulling image %q" .image | Quote }}}}
  {{ else }}
  state: {waiting: {reason: UnknownFate, message: {{ $state | Quote }}}}
  {{ end }}
{{ end }}

initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  restartCount: 0
  {{ if eq (or .restartPolicy "") "Always" }}
  started: true
  state: {running: {startedAt: {{ $now }}}}
  {{ else }}
  started: false
  state: {terminated: {exitCode: 0, reason: Completed,
    startedAt: {{ $now }}, finishedAt: {{ $now }}}}
  {{ end }}
{{ end }}

conditions:
- {type: PodReadyToStartContainers, status: "True", lastTransitionTime: {{ $now }}}
- {type: Initialized, status: "True", lastTransitionTime: {{ $now }}}
{{ range $type := list "ContainersReady" "Ready" }}
{{ if $unready }}
- {type: {{ $type }}, status: "False", lastTransitionTime: {{ $now }}, reason: ContainersNotReady,
   message: "containers with unready status: [{{ join " " $unready }}]"}
{{ else }}
- {type: {{ $type }}, status: "True", lastTransitionTime: {{ $now }}, reason: null, message: null}
{{ end }}
{{ end }}
{{ if eq $fate "healthy" }}
- {type: test/fate, $patch: delete}
{{ else }}
- {type: test/fate, status: "True", reason: {{ $fate | Quote }}, lastTransitionTime: {{ $now }}}
{{ end }}

phase: {{ ternary "Pending" "Running" (eq $fate "image-missing") }}
startTime: {{ or .status.startTime Now | Quote }}
{{ $address := or .status.podIP (PodIPWith .spec.nodeName (or .spec.hostNetwork false) "" "" "") }}
podIP: {{ $address }}
podIPs: [{ip: {{ $address }}}]
{{ with NodeIPWith .spec.nodeName }}
hostIP: {{ . }}
hostIPs: [{ip: {{ . }}}]
{{ end }}
"""

_READY = '[.status.conditions[]? | select(.type == "Ready") | .status][0] == "True"'

# Whether the pod shows another fate than the one that it is to have.
_POD_IS_DUE = f"""
(if any(.spec.containers[]; .image | endswith(":missing")) then "image-missing"
 else .metadata.annotations["{FATE}"] // "healthy" end)
!= ([.status.conditions[]? | select(.type == "{FATE}") | .reason][0]
    // (if {_READY} then "healthy" else "none" end))
"""

# kwok deletes by name alone, and the apiserver announces a deletion with grace 0 just before it
# is done. To delete upon that would hit the next pod of the same name, as StatefulSets have it.
# Only a crash of the apiserver in between leaves such a pod behind.
_POD_IS_STOPPING = (
    ".metadata.deletionTimestamp != null and .metadata.deletionGracePeriodSeconds > 0"
)
_POD_IS_LEAVING = (
    ".metadata.deletionTimestamp != null and .metadata.deletionGracePeriodSeconds == 0"
)


def node(number: int) -> Document:
    """A Node as a kubelet would register it; kwok makes it Ready."""
    name = f"node-{number}"
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    }
    address = f"10.0.{number // 256}.{number % 256}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "allocatable": _CAPACITY,
            "capacity": _CAPACITY,
        },
    }


def kwok_configuration() -> str:
    """What kwok reads from its configuration file: YAML documents that happen to be JSON."""
    documents = [
        {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokConfiguration",
            "options": _WORKERS,
        },
        _stage("node-ready", "Node", [_when(_READY, "false")], _status_step(_NODE_STATUS)),
        _stage(
            "pod-show", "Pod", [*_LIVING, _when(_POD_IS_DUE, "true")], _status_step(_POD_STATUS)
        ),
        _stage(
            "pod-flap",
            "Pod",
            [
                *_LIVING,
                _when(_POD_IS_DUE, "false"),
                _when(f'.metadata.annotations["{FATE}"]', "flapping"),
            ],
            _status_step(_POD_STATUS),
            delay=_FLAP_MILLISECONDS,
        ),
        _stage("pod-delete", "Pod", [_when(_POD_IS_STOPPING, "true")], {"delete": True}),
        _stage(
            "pod-delete-again",
            "Pod",
            [_when(_POD_IS_LEAVING, "true")],
            {"delete": True},
            delay=_LEAVE_MILLISECONDS,
        ),
    ]
    return "\n---\n".join(json.dumps(document) for document in documents)


def _when(query: str, *values: str) -> Document:
    return {"jq": {"key": query, "operator": "In", "values": list(values)}}


_LIVING = [
    {"jq": {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}},
    _when(".status.phase", "Pending", "Running"),
]


def _status_step(template: str) -> Document:
    return {"patch": {"subresource": "status", "root": "status", "template": template}}


def _stage(
    name: str, kind: str, when: list[Document], step: Document, *, delay: int = 0
) -> Document:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": when},
            "delay": {"durationMilliseconds": delay},
            "steps": [step],
        },
    }
