"""Manifests of older kinds."""

from __future__ import annotations

from typing import Any

import yaml

PROVISIONER = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec:
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]
  providerRef: {name: default}
"""
TEMPLATE = """
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: default}
spec: {subnetSelector: {a: b}, securityGroupSelector: {a: b}}
"""
SETTINGS = """
---
apiVersion: v1
kind: ConfigMap
metadata: {name: karpenter-global-settings, namespace: karpenter}
data: {aws.defaultInstanceProfile: nodes, batchMaxDuration: 10s}
"""
BETA = """
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: beta, labels: {a: b}, annotations: {c: d}}
spec:
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s, budgets: [{nodes: 10%}]}
  template:
    metadata: {labels: {team: a}}
    spec:
      nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: beta}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      kubelet: {maxPods: 20}
---
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: beta}
spec:
  amiFamily: AL2
  role: r
  amiSelectorTerms: [{id: ami-1}]
  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 20Gi}}]
  metadataOptions: {httpTokens: required}
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
---
apiVersion: karpenter.sh/v1beta1
kind: NodeClaim
metadata: {name: c1, labels: {karpenter.sh/nodepool: beta}}
spec: {requirements: [], nodeClassRef: {name: beta}}
status: {providerID: "aws:///us-west-2a/i-1", conditions: [{type: Empty, status: "True"}]}
---
apiVersion: karpenter.sh/v1alpha5
kind: Machine
metadata: {name: m1, labels: {karpenter.sh/provisioner-name: default}}
spec: {requirements: [], machineTemplateRef: {name: default}, kubelet: {maxPods: 3}}
status: {conditions: [{type: MachineLaunched, status: "True", lastTransitionTime: "2023-01-01T00:00:00Z"}]}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: dear}
spec: {weight: 5, requirements: [{key: a, operator: In, values: [b]}], price: "1", capacity: {example.com/x: 1}}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare}
spec:
  provisioningStrategy: buffer.x-k8s.io/active-capacity
  podTemplateRef: {name: small}
  replicas: 2
  limits: {cpu: 1}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: small}
template:
  metadata: {labels: {app: small}}
  spec:
    nodeSelector: {karpenter.sh/provisioner-name: default}
    containers: [{name: a, resources: {limits: {cpu: 500m}}}]
    volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]
---
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {karpenter.sh/do-not-evict: "true"}}
spec: {nodeSelector: {karpenter.sh/provisioner-name: default}, containers: [{name: a}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {karpenter.sh/provisioner-name: default}}
spec: {taints: [{key: karpenter.sh/disruption, value: disrupting, effect: NoSchedule}]}
status: {allocatable: {cpu: 1, memory: 1Gi, pods: 10}, capacity: {cpu: 1, memory: 1Gi, pods: 10}}
"""
OLD: list[dict[str, Any]] = list(yaml.safe_load_all(PROVISIONER + TEMPLATE + SETTINGS + BETA))
