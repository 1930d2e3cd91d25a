//go:build tools

// Package helm pins the Helm that the tests run.
package helm

import _ "helm.sh/helm/v4/cmd/helm"
