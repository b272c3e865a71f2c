"""Random edits of manifests, and what a command says of them."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.simulate.mutating import ANYTHING, CHANGES
from tests.simulate.running import POOL, Answer, deployment, node

RUNNING = """
apiVersion: v1
kind: Pod
metadata: {name: there, creationTimestamp: "2026-01-01T00:00:00Z", labels: {app: a}}
spec:
  nodeName: n1
  priority: 5
  tolerations: [{key: a, operator: Exists, effect: NoSchedule}]
  containers: [{name: a, ports: [{hostPort: 80, protocol: TCP}], resources: {requests: {cpu: 1}, limits: {cpu: 1}}}]
  initContainers: [{name: b, restartPolicy: Always, resources: {requests: {memory: 1Mi}}}]
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: a}}}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ["5"]}]}]
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: a}}}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]
status: {phase: Running, conditions: [{type: PodScheduled, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: c1, labels: {karpenter.sh/nodepool: default}}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
  taints: [{key: a, effect: NoSchedule}]
status: {providerID: "aws:///z/i-1", allocatable: {cpu: 1}, capacity: {cpu: 1}, nodeName: n1}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {template: {spec: {containers: [{name: a}], nodeSelector: {a: b}}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 5
"""
STORAGE = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {volumeName: v, storageClassName: late, accessModes: [ReadWriteOnce]}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec:
  csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}
  capacity: {storage: 1Gi}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z]}]}]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [us-west-2a]}]}]
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: n1}
spec: {drivers: [{name: ebs.csi.aws.com, nodeID: n1, topologyKeys: [a], allocatable: {count: 1}}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: late}}]
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: a, resources: {requests: {cpu: 1}}, volumeMounts: [{name: data, mountPath: /d}]}]
      volumes: [{name: e, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: late}}}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: a}]}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: other, labels: {a: b}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: a}}}
---
apiVersion: v1
kind: List
items: [{apiVersion: v1, kind: Pod, metadata: {name: listed}, spec: {containers: [{name: a}]}}]
"""
GOOD: list[dict[str, Any]] = [
    document
    for text in (POOL, RUNNING, node(labels={"a": "b"}), deployment(priorityClassName="high"), STORAGE)
    for document in yaml.safe_load_all(text)
    if document
]
EDITS = st.tuples(st.integers(0, len(CHANGES) - 1), st.sampled_from(ANYTHING))


def judged(answer: Answer) -> None:
    """Either a plan or lines of reasons, each short enough to be read, and nothing else."""
    if answer.status == 0:
        json.loads(answer.out)
    else:
        assert (answer.status, answer.out) == (2, "")
        assert answer.err
        assert "Traceback" not in answer.err
        assert all(0 < len(line) < 1000 for line in answer.err.splitlines())
