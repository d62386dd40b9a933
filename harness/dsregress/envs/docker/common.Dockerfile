# What all stacks of a comparison share: Python, torch, transformers, ... everything but the framework under test.
#
# Built by harness/dsregress/envs/images.py, which makes the context: requirements.txt, and installer/ with uv, the user's own pip
# configuration in uv's words (settings.sh), and packages that only this machine has. The stage that holds those is left
# behind: neither the installer nor an index's password is in the image.
ARG BASE
FROM ${BASE} AS ground
ARG PYTHON
# Python's own images have it; CUDA's do not.
RUN command -v "python${PYTHON}" > /dev/null || { apt-get update \
 && apt-get install --yes --no-install-recommends "python${PYTHON}" && rm -rf /var/lib/apt/lists/*; }

FROM ground AS installer
ARG BUILD
LABEL dsregress.role=stage dsregress.build=${BUILD}
ARG PYTHON
COPY installer /installer
COPY requirements.txt /installer/requirements.txt
RUN sh /installer/common.sh "python${PYTHON}"

FROM ground
COPY --from=installer /opt/stack /opt/stack
ENV PATH=/opt/stack/bin:${PATH} LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
