"""What users write: a model for each kind, from which its CRD is generated, and each annotation with its values.

`base` says how a rule is written, `validation` is what checks an object, `labels` names all labels, annotations and
taints. `versions` and `legacy` convert what older manifests have.
"""
