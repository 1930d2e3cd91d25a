"""Where a hub of Open Cluster Management has its objects."""

from ..kube.resources import Resource

CLUSTER_GROUP = "cluster.open-cluster-management.io"
ADDON_GROUP = "addon.open-cluster-management.io"
WORK_GROUP = "work.open-cluster-management.io"

MANAGED_CLUSTER = Resource(CLUSTER_GROUP, "v1", "ManagedCluster", "managedclusters")
PLACEMENT_DECISION = Resource(CLUSTER_GROUP, "v1beta1", "PlacementDecision", "placementdecisions")
TEMPLATE = Resource(ADDON_GROUP, "v1alpha1", "AddOnTemplate", "addontemplates")
DEFINITION = Resource(ADDON_GROUP, "v1alpha1", "ClusterManagementAddOn", "clustermanagementaddons")
CONFIG = Resource(ADDON_GROUP, "v1alpha1", "AddOnDeploymentConfig", "addondeploymentconfigs")
ADDON = Resource(ADDON_GROUP, "v1alpha1", "ManagedClusterAddOn", "managedclusteraddons")
WORK = Resource(WORK_GROUP, "v1", "ManifestWork", "manifestworks")
WORK_SET = Resource(WORK_GROUP, "v1alpha1", "ManifestWorkReplicaSet", "manifestworkreplicasets")

OWN = {each.kind: each for each in (TEMPLATE, DEFINITION, CONFIG, ADDON, WORK_SET)}
"""What the operator makes."""
