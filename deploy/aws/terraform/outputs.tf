output "controller_role_arn" {
  description = "With IRSA: the annotation eks.amazonaws.com/role-arn of the ServiceAccount."
  value       = aws_iam_role.controller.arn
}

output "node_role_name" {
  description = "spec.role of each EC2NodeClass."
  value       = aws_iam_role.node.name
}

output "windows_node_role_name" {
  description = "spec.role of each EC2NodeClass of Windows."
  value       = one(aws_iam_role.windows_node[*].name)
}

output "interruption_queue_name" {
  description = "settings.interruptionQueue of the Helm chart."
  value       = aws_sqs_queue.interruption.name
}
