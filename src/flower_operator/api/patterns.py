"""The patterns of texts, and what to write to fit each."""

DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DURATION = "^([0-9]+(h|m|s))+$"
HOST = r"^[A-Za-z0-9]([-.:A-Za-z0-9]*[A-Za-z0-9])?$"
HOST_AND_PORT = (
    r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?):([1-9][0-9]{0,3}|[1-5][0-9]{4}|"
    r"6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
)


def _image() -> str:
    """The grammar of references that container runtimes read, from the distribution project."""
    label = "[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?"
    host = rf"({label}(\.{label})*|\[[0-9A-Fa-f:]+\])(:[0-9]+)?"
    component = "[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
    tag = r"[A-Za-z0-9_][-.A-Za-z0-9_]{0,127}"
    algorithm = r"[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*"
    return rf"({host}/)?{component}(/{component})*(:{tag})?(@{algorithm}:[0-9A-Fa-f]{{32,}})?"


IMAGE = f"^{_image()}$"
IMAGE_OR_EMPTY = f"^({_image()})?$"

_AN_IMAGE = "an image such as flwr/superlink:1.42.0, as in [HOST[:PORT]/]PATH[:TAG][@DIGEST]"
MEANINGS = {
    DNS_LABEL: "lower-case letters, digits and '-', with a letter or digit at both ends",
    DURATION: "a duration such as 12h or 1h30m",
    HOST: "a host name or an IP address",
    HOST_AND_PORT: "a host and a port such as flower.example.org:9092",
    IMAGE: _AN_IMAGE,
    IMAGE_OR_EMPTY: _AN_IMAGE,
}
