# A stack: what it shares with its neighbours (common.Dockerfile), and one layer with the framework under test.
ARG COMMON
FROM ${COMMON} AS installer
ARG BUILD
LABEL dsregress.role=stage dsregress.build=${BUILD}
COPY installer /installer
COPY requirements.txt /installer/requirements.txt
RUN sh /installer/stack.sh

FROM ${COMMON}
COPY --from=installer /added /
