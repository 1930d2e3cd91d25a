"""The chart's ValidatingAdmissionPolicy: a Federation reaches what its author may, and no more.

The operator may do more in a namespace than most people who create Federations there. So for each
field that reaches beyond a plain pod, the API server asks whether the author has the permission
that would reach as far without the operator.

An expression may cost 1,000,000 and all of them 10,000,000; each question to the authorizer costs
350,000. So an expression asks one question, and there are at most REFERENCES + 5 of them. Who may
create pods is asked first, so that a large manifest costs an administrator next to nothing.
"""

from typing import Any

NAME = "flower-operator-federation-authors"

# How many different Secrets, ConfigMaps, claims and ServiceAccounts are looked up by name.
REFERENCES = 12
# Names are listed again and again (one Secret in 16 pools) before equal ones are left out.
MENTIONS = 256

# Whoever may not create pods may use these, and no other: a field of a new Kubernetes release is
# refused until it is listed here.
POD_FIELDS = (
    "affinity",
    "automountServiceAccountToken",
    "containers",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "serviceAccount",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
)
CONTAINER_FIELDS = (
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "name",
    "resources",
    "volumeMounts",
    "workingDir",
)
VOLUME_FIELDS = (
    "configMap",
    "downwardAPI",
    "emptyDir",
    "name",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
PROJECTED_FIELDS = ("configMap", "downwardAPI", "secret", "serviceAccountToken")
CLAIM_FIELDS = ("accessModes", "resources", "storageClassName", "volumeMode")
# On other clusters nothing is known of their Secrets, claims and ServiceAccounts.
PLACED_POD_FIELDS = (
    "affinity",
    "nodeSelector",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
)
# What may change without a look at the rest of a part: no other code runs for it, nowhere else.
UNRELATED_FIELDS = (
    "nodeConfig",
    "replicas",
    "resources",
    "service",
    "superexecResources",
    "supernodeResources",
)

TEMPLATE = "p.?podTemplate.?spec"
VOLUMES = f"(p.?volumes.orValue([]) + {TEMPLATE}.?volumes.orValue([]))"
CONTAINERS = f"({TEMPLATE}.?containers.orValue([]) + {TEMPLATE}.?initContainers.orValue([]))"
SOURCES = "v.?projected.?sources.orValue([])"


def policy() -> dict[str, Any]:
    """The `spec` of the policy."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["flwr.exalsius.ai"],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["federations"],
                    # Without it the API server adds one, and kubectl apply removes that each time.
                    "scope": "Namespaced",
                }
            ]
        },
        # Metadata and status belong to the operator and to Kubernetes' own controllers.
        "matchConditions": [
            {"name": "spec-changed", "expression": "oldObject == null || " + _differ("spec")}
        ],
        "variables": [
            {"name": name, "expression": expression} for name, expression in _variables().items()
        ],
        "validations": [*_validations()],
    }


def _variables() -> dict[str, str]:
    return {
        # The SuperLink, and the pools, which have names.
        "parts": "[object.spec.superlink] + object.spec.supernodes.pools",
        "before": "oldObject == null ? [] : "
        "[oldObject.spec.superlink] + oldObject.spec.supernodes.pools",
        "sharedUnchanged": "oldObject != null && "
        + _same("object.spec.supernodes", "oldObject.spec.supernodes", ("pools",)),
        "changed": "variables.parts.filter(p, !variables.before.exists(q, p.?name == q.?name && "
        f"(!has(p.name) || variables.sharedUnchanged) && {_same('p', 'q', UNRELATED_FIELDS)}))",
        "tlsChanged": f"oldObject == null || {_differ('spec.?tls')} || "
        + _differ("spec.superlink.?service.?externalAddress"),
        "mayCreatePods": _allowed("", "pods"),
        "beyondPlain": f"variables.changed.map(p, ({' + '.join(_beyond_plain())})"
        ".map(f, (has(p.name) ? 'pool ' + p.name + ': ' : 'superlink: ') + f).join(', '))"
        ".filter(s, s != '').join(', ')",
        "placedBeyondPlain": "variables.changed.filter(p, has(p.placement) && ("
        f"size({VOLUMES}) > 0 || p.?gpu.?mountAll.orValue(false) || "
        "p.?podTemplate.?metadata.orValue({}).size() > 0 || "
        f"{TEMPLATE}.orValue({{}}).exists(k, !(k in {_list(PLACED_POD_FIELDS)})) || "
        "p.?env.orValue([]).exists(e, has(e.valueFrom)))).map(p, p.name).join(', ')",
        "mentions": f"[{', '.join(_mentions())}]"
        ".filter(s, s != '').join(',').split(',').filter(s, s != '')",
        "references": f"[{', '.join(map(str, range(MENTIONS)))}].filter(i, "
        "i < size(variables.mentions) && variables.mentions.indexOf(variables.mentions[i]) == i)"
        ".map(i, variables.mentions[i])",
    }


def _validations() -> list[dict[str, str]]:
    found = [
        _validation(
            "variables.mayCreatePods || variables.beyondPlain == ''",
            "variables.beyondPlain + ': only for those who may create pods'",
        ),
        _validation(
            "variables.placedBeyondPlain == '' || "
            + _allowed("work.open-cluster-management.io", "manifestworkreplicasets"),
            "'pools with placement may have volumes, mountAll, values from Secrets and podTemplate "
            "fields other than scheduling only from those who may create manifestworkreplicasets: '"
            " + variables.placedBeyondPlain",
        ),
        _validation(
            f"variables.mayCreatePods || size(variables.mentions) <= {MENTIONS} && "
            f"size(variables.references) <= {REFERENCES}",
            f"'more than {REFERENCES} Secrets, ConfigMaps, claims and ServiceAccounts: only for "
            "those who may create pods'",
        ),
    ]
    for number in range(REFERENCES):
        reference = f"variables.references[{number}]"
        question = (
            f"[{reference}.split('/')].all(r, authorizer.group('').resource(r[1])"
            ".namespace(request.namespace).name(r[2]).check(r[0]).allowed())"
        )
        found.append(
            _validation(
                f"variables.mayCreatePods || size(variables.references) <= {number} || {question}",
                f"[{reference}.split('/')].map(r, r[1] + ' ' + r[2] + ': only for those who may ' "
                "+ r[0] + ' it, or create pods')[0]",
            )
        )
    issuer = "object.spec.?tls.?issuerRef.hasValue()"
    service = "object.spec.superlink.?service"
    opened = "object.spec.?networkPolicy"
    return [
        *found,
        _validation(
            f"!{issuer} || !variables.tlsChanged || {_allowed('cert-manager.io', 'certificates')}",
            "'spec.tls.issuerRef: only for those who may create certificates.cert-manager.io'",
        ),
        _validation(
            f"{service}.?type.orValue('ClusterIP') == 'ClusterIP' && "
            f"{service}.?annotations.orValue({{}}).size() == 0 || "
            f"oldObject != null && !({_differ('spec.superlink.?service')}) || "
            + _allowed("", "services"),
            "'spec.superlink.service: a type other than ClusterIP, and annotations, are only for "
            "those who may create services'",
        ),
        _validation(
            f"{opened}.?egress.orValue([]).size() + {opened}.?controlFrom.orValue([]).size() == 0 "
            f"|| oldObject != null && !({_differ('spec.?networkPolicy')}) || "
            + _allowed("networking.k8s.io", "networkpolicies"),
            "'spec.networkPolicy: egress and controlFrom are only for those who may create "
            "networkpolicies'",
        ),
    ]


def _beyond_plain() -> list[str]:
    """Lists of fields of a part that reach as far as any pod."""
    return [
        "(p.?executor.orValue('') == 'kubernetes' ? ['executor'] : [])",
        "(p.?gpu.?mountAll.orValue(false) ? ['gpu.mountAll'] : [])",
        "(p.?podTemplate.?metadata.orValue({}).size() > 0 ? ['podTemplate.metadata'] : [])",
        f"{TEMPLATE}.orValue({{}}).filter(k, !(k in {_list(POD_FIELDS)}))"
        ".map(k, 'podTemplate.spec.' + k)",
        _unlisted(CONTAINERS, "c", CONTAINER_FIELDS, "'container ' + c.name + ' '"),
        _unlisted(VOLUMES, "v", VOLUME_FIELDS, "'volume ' + v.name + ' '"),
        f"{VOLUMES}.filter(v, {SOURCES}.exists(s, s.exists(k, !(k in {_list(PROJECTED_FIELDS)}))))"
        ".map(v, 'volume ' + v.name + ' projected')",
        _unlisted(
            "p.?volumeClaimTemplates.orValue([])",
            "t",
            CLAIM_FIELDS,
            "'volumeClaimTemplate ' + t.metadata.name + ' '",
            "t.spec",
        ),
    ]


def _unlisted(
    items: str, item: str, fields: tuple[str, ...], words: str, value: str | None = None
) -> str:
    """The fields of items of a list that are not among these, one text for each item."""
    unlisted = f"{value or item}.filter(k, !(k in {_list(fields)}))"
    return f"{items}.map({item}, {unlisted}.map(k, {words} + k).join(', ')).filter(s, s != '')"


def _mentions() -> list[str]:
    """Texts of VERB/RESOURCE/NAME with commas between them, each for one kind of field."""
    secret_volumes = _each(VOLUMES, "v", "v.?secret.?secretName", "get/secrets/")
    map_volumes = _each(VOLUMES, "v", "v.?configMap.?name", "get/configmaps/")
    claims = _each(VOLUMES, "v", "v.?persistentVolumeClaim.?claimName", USE_CLAIM)
    pull = _each(f"{TEMPLATE}.?imagePullSecrets.orValue([])", "i", "i.?name", "get/secrets/")
    account = f"{TEMPLATE}.?serviceAccountName.or({TEMPLATE}.?serviceAccount).orValue('default')"
    has_account = (
        f"{TEMPLATE}.?serviceAccountName.hasValue() || {TEMPLATE}.?serviceAccount.hasValue() || "
        f"{TEMPLATE}.?automountServiceAccountToken.orValue(false) || "
        f"{VOLUMES}.exists(v, {SOURCES}.exists(s, has(s.serviceAccountToken)))"
    )
    in_parts = [
        secret_volumes,
        map_volumes,
        claims,
        pull,
        _nested(VOLUMES, "v", _each(SOURCES, "s", "s.?secret.?name", "get/secrets/")),
        _nested(VOLUMES, "v", _each(SOURCES, "s", "s.?configMap.?name", "get/configmaps/")),
        *_from_environment("p.?env.orValue([])"),
        *(
            _nested(CONTAINERS, "c", text)
            for text in (
                *_from_environment("c.?env.orValue([])"),
                _each("c.?envFrom.orValue([])", "f", "f.?secretRef.?name", "get/secrets/"),
                _each("c.?envFrom.orValue([])", "f", "f.?configMapRef.?name", "get/configmaps/"),
            )
        ),
        f"({has_account} ? '{USE_ACCOUNT}' + {account} : '')",
    ]
    own_secret = "object.spec.?tls.?secretName"
    return [
        *(_nested("variables.changed", "p", text) for text in in_parts),
        *(
            f"(variables.changed.exists(p, has(p.name)) ? {text} : '')"
            for text in _from_environment("object.spec.supernodes.?env.orValue([])")
        ),
        f"({own_secret}.hasValue() && "
        "(variables.tlsChanged || variables.changed.exists(p, !has(p.name))) ? "
        f"'get/secrets/' + {own_secret}.orValue('') : '')",
    ]


# Kubernetes has no permission to use these short of creating pods, so the chart has a verb of its
# own.
USE_CLAIM = "use/persistentvolumeclaims/"
USE_ACCOUNT = "use/serviceaccounts/"


def _from_environment(variables: str) -> list[str]:
    return [
        _each(variables, "e", "e.?valueFrom.?secretKeyRef.?name", "get/secrets/"),
        _each(variables, "e", "e.?valueFrom.?configMapKeyRef.?name", "get/configmaps/"),
    ]


def _each(items: str, item: str, name: str, prefix: str) -> str:
    """The names in a list's items, where they have one."""
    return (
        f"{items}.filter({item}, {name}.hasValue()).map({item}, '{prefix}' + {name}.orValue(''))"
        ".join(',')"
    )


def _nested(items: str, item: str, text: str) -> str:
    return f"{items}.map({item}, {text}).filter(n, n != '').join(',')"


def _same(new: str, old: str, but: tuple[str, ...]) -> str:
    """Whether two objects are equal but for some fields."""
    fields = _list(but)
    return (
        f"{new}.all(k, k in {fields} || k in {old} && {new}[k] == {old}[k]) && "
        f"{old}.all(k, k in {fields} || k in {new})"
    )


def _differ(field: str) -> str:
    return f"object.{field} != oldObject.{field}"


def _allowed(group: str, resource: str) -> str:
    """Whether the author may create objects of a kind in the namespace."""
    return (
        f"authorizer.group('{group}').resource('{resource}').namespace(request.namespace)"
        ".check('create').allowed()"
    )


def _validation(expression: str, message: str) -> dict[str, str]:
    return {
        "expression": expression,
        "messageExpression": message,
        "reason": "Forbidden",
    }


def _list(names: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"
