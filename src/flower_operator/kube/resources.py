"""Kinds of Kubernetes objects and where the API server has them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Resource:
    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The path of one object, or of all in a namespace, or of all there are."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{within}/{self.plural}" + (f"/{name}" if name else "")


CERTIFICATE = Resource("cert-manager.io", "v1", "Certificate", "certificates")
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
EVENT = Resource("", "v1", "Event", "events")
POD = Resource("", "v1", "Pod", "pods")
ACCESS_GRANT = Resource("skupper.io", "v2alpha1", "AccessGrant", "accessgrants")
CONNECTOR = Resource("skupper.io", "v2alpha1", "Connector", "connectors")
SITE = Resource("skupper.io", "v2alpha1", "Site", "sites")
SECRET = Resource("", "v1", "Secret", "secrets")
SERVICE = Resource("", "v1", "Service", "services")
SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")
DAEMON_SET = Resource("apps", "v1", "DaemonSet", "daemonsets")
ENDPOINT_SLICE = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
NETWORK_POLICY = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
CUSTOM_RESOURCE_DEFINITION = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
)
DEPLOYMENT = Resource("apps", "v1", "Deployment", "deployments")
STATEFUL_SET = Resource("apps", "v1", "StatefulSet", "statefulsets")
ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
LEASE = Resource("coordination.k8s.io", "v1", "Lease", "leases")
TOKEN_REVIEW = Resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews")
ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews"
)
OWN_ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"
)
