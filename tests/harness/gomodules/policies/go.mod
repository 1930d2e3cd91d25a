// Of these only the definitions of their APIs are read.
module flower-operator.test/policies

go 1.25.0

require open-cluster-management.io/config-policy-controller v0.16.0

require open-cluster-management.io/governance-policy-propagator v0.16.0
