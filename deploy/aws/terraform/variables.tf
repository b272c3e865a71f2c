variable "cluster_name" {
  description = "Name of the EKS cluster."
  type        = string
  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,45}$", var.cluster_name))
    error_message = "cluster_name may have up to 46 characters, because the name of a role may have 64."
  }
}

variable "namespace" {
  description = "Namespace of the worker."
  type        = string
  default     = "tenon"
}

variable "service_account" {
  description = "ServiceAccount of the worker."
  type        = string
  default     = "tenon"
}

variable "oidc_provider" {
  description = "For IRSA: the cluster's OIDC issuer, without https://. Empty: EKS Pod Identity."
  type        = string
  default     = ""
}

variable "access_entry" {
  description = "Nodes join by an EKS access entry. false: you add the role to the ConfigMap aws-auth."
  type        = bool
  default     = true
}

variable "windows_nodes" {
  description = "Make a role for Windows nodes too, because their access entry has a type of its own."
  type        = bool
  default     = false
}
