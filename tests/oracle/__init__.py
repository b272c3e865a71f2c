"""An independent judge of plans, written from the rules of Kubernetes and the contract of ``tenon simulate`` alone.

It reads the same manifests and the same catalogue as the command and shares no code with it, so that an error in the
engine cannot hide behind the same error here. It knows nothing of how a plan is found, only what a plan must hold.
"""
