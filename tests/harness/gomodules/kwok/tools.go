//go:build tools

// Package kwok pins the kwok that plays nodes and kubelets in the tests.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
