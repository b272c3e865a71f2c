# What Tenon needs for one EKS cluster, as deploy/aws/cloudformation.yaml makes it: roles, access of its nodes, queue of
# interruptions. The policy and the rules are read from the files that the template is made from.

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.name
  account   = data.aws_caller_identity.current.account_id
  policy = templatefile("${path.module}/../../iam/controller-policy.json", {
    AWS_PARTITION  = local.partition
    AWS_REGION     = local.region
    AWS_ACCOUNT_ID = local.account
    CLUSTER_NAME   = var.cluster_name
  })
  rules = jsondecode(file("${path.module}/../event-rules.json"))
  node_policies = toset([
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
  ])
  pod_identity = var.oidc_provider == ""
}

resource "aws_iam_policy" "controller" {
  name   = "TenonController-${var.cluster_name}"
  policy = local.policy
}

data "aws_iam_policy_document" "controller_trust" {
  dynamic "statement" {
    for_each = local.pod_identity ? [1] : []
    content {
      actions = ["sts:AssumeRole", "sts:TagSession"]
      principals {
        type        = "Service"
        identifiers = ["pods.eks.amazonaws.com"]
      }
    }
  }
  dynamic "statement" {
    for_each = local.pod_identity ? [] : [1]
    content {
      actions = ["sts:AssumeRoleWithWebIdentity"]
      principals {
        type        = "Federated"
        identifiers = ["arn:${local.partition}:iam::${local.account}:oidc-provider/${var.oidc_provider}"]
      }
      condition {
        test     = "StringEquals"
        variable = "${var.oidc_provider}:aud"
        values   = ["sts.amazonaws.com"]
      }
      condition {
        test     = "StringEquals"
        variable = "${var.oidc_provider}:sub"
        values   = ["system:serviceaccount:${var.namespace}:${var.service_account}"]
      }
    }
  }
}

resource "aws_iam_role" "controller" {
  name               = "TenonController-${var.cluster_name}"
  assume_role_policy = data.aws_iam_policy_document.controller_trust.json
}

resource "aws_iam_role_policy_attachment" "controller" {
  role       = aws_iam_role.controller.name
  policy_arn = aws_iam_policy.controller.arn
}

resource "aws_eks_pod_identity_association" "controller" {
  count           = local.pod_identity ? 1 : 0
  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller.arn
}

data "aws_iam_policy_document" "node_trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ec2.${data.aws_partition.current.dns_suffix}"]
    }
  }
}

resource "aws_iam_role" "node" {
  name               = "KarpenterNodeRole-${var.cluster_name}"
  assume_role_policy = data.aws_iam_policy_document.node_trust.json
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = local.node_policies
  role       = aws_iam_role.node.name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.value}"
}

resource "aws_eks_access_entry" "node" {
  count         = var.access_entry ? 1 : 0
  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node.arn
  type          = "EC2_LINUX"
}

resource "aws_iam_role" "windows_node" {
  count              = var.windows_nodes ? 1 : 0
  name               = "WindowsNodeRole-${var.cluster_name}"
  assume_role_policy = data.aws_iam_policy_document.node_trust.json
}

resource "aws_iam_role_policy_attachment" "windows_node" {
  for_each   = var.windows_nodes ? local.node_policies : toset([])
  role       = aws_iam_role.windows_node[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.value}"
}

resource "aws_eks_access_entry" "windows_node" {
  count         = var.access_entry && var.windows_nodes ? 1 : 0
  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.windows_node[0].arn
  type          = "EC2_WINDOWS"
}

resource "aws_sqs_queue" "interruption" {
  name                      = var.cluster_name
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

data "aws_iam_policy_document" "interruption" {
  statement {
    sid       = "EventsOfThisAccount"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.interruption.arn]
    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }
    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      values   = ["arn:${local.partition}:events:${local.region}:${local.account}:rule/*"]
    }
  }
  statement {
    sid       = "DenyHTTP"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.interruption.arn]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "interruption" {
  queue_url = aws_sqs_queue.interruption.url
  policy    = data.aws_iam_policy_document.interruption.json
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each      = local.rules
  name_prefix   = "Tenon${each.key}-"
  description   = each.value.description
  event_pattern = jsonencode(each.value.pattern)
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each  = local.rules
  rule      = aws_cloudwatch_event_rule.interruption[each.key].name
  target_id = "InterruptionQueue"
  arn       = aws_sqs_queue.interruption.arn
}
