"""What the operator looks at: of each object only the fields that a decision reads."""

from .children import (
    Child,
    ChildForm,
    CountedForm,
    RoleBindingForm,
    ServiceAccountForm,
    child_of,
    counted_of,
    role_binding_of,
    service_account_of,
)
from .events import MOUNT_SECONDS, EventForm, Mishap, Refusal, told_by
from .federations import Federation, FederationForm, federation_of
from .interconnections import Interconnection, InterconnectionForm, interconnection_of
from .metadata import Metadata, unversioned
from .pods import TASKS, Pod, PodForm, pod_of
from .services import Service, ServiceForm, node_port_of, service_of
from .trust import Trust, TrustForm, trust_of
from .workloads import Workload, WorkloadForm, daemon_set_of, deployment_of, stateful_set_of

__all__ = [
    "MOUNT_SECONDS",
    "TASKS",
    "Child",
    "ChildForm",
    "CountedForm",
    "EventForm",
    "Federation",
    "FederationForm",
    "Interconnection",
    "InterconnectionForm",
    "Metadata",
    "Mishap",
    "Pod",
    "PodForm",
    "Refusal",
    "RoleBindingForm",
    "Service",
    "ServiceAccountForm",
    "ServiceForm",
    "Trust",
    "TrustForm",
    "Workload",
    "WorkloadForm",
    "child_of",
    "counted_of",
    "daemon_set_of",
    "deployment_of",
    "federation_of",
    "interconnection_of",
    "node_port_of",
    "pod_of",
    "role_binding_of",
    "service_account_of",
    "service_of",
    "stateful_set_of",
    "told_by",
    "trust_of",
    "unversioned",
]
