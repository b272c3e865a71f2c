//go:build tools

package charttools

import _ "helm.sh/helm/v3/cmd/helm"
