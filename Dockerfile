# The operator's image. `make docker-build IMG=...`, or plainly: docker build .
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
# The environment that the last stage takes over has no pip: one from outside installs into it.
RUN python -m venv --without-pip /opt/flower-operator
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN pip install --require-hashes --requirement requirements/build.txt
# uv installs Flower releases for `flower-operator up`, which has no place in a cluster, and is
# larger than all the rest. pip compiles what it installs, for a file system that is read-only.
RUN pip --python /opt/flower-operator/bin/python install --require-hashes --requirement requirements/runtime.txt \
    && pip --python /opt/flower-operator/bin/python uninstall --yes uv
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m hatchling build --target wheel --directory /wheel \
    && pip --python /opt/flower-operator/bin/python install --no-deps /wheel/*.whl

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/flower-operator /opt/flower-operator
ENV PATH=/opt/flower-operator/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# By number, so that Kubernetes can see that it is not root.
USER 65532:65532
ENTRYPOINT ["flower-operator"]
CMD ["controller"]
