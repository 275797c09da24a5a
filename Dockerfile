# The server as an image: `docker build -t ruvllm .`. Runs as nobody in particular, on a read-only file system; what it
# writes goes to /state (keys, log, sessions). Models are in /models. docs/deploy.md shows how to run it.

FROM debian:12-slim AS build
COPY scripts/setup.sh /src/scripts/setup.sh
ENV RUVLLM_DEPS_DIR=/deps
RUN /src/scripts/setup.sh package
COPY . /src
WORKDIR /src
RUN make deb

FROM debian:12-slim
COPY --from=build /src/build/package/ruvllm_*.deb /tmp/
# The number is fixed, so that volumes can be prepared for it.
RUN groupadd --gid 10001 ruvllm \
    && useradd --uid 10001 --gid 10001 --home-dir /state --no-create-home --shell /usr/sbin/nologin ruvllm \
    && apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates /tmp/ruvllm_*.deb \
    && rm -rf /var/lib/apt/lists/* /tmp/ruvllm_*.deb \
    && install -d -m 0700 -o ruvllm -g ruvllm /state \
    && install -d -m 0755 -o ruvllm -g ruvllm /models
ENV RUVLLM_MODELS=/models XDG_STATE_HOME=/state RUVLLM_CACHE_DIR=/tmp/ruvllm LC_ALL=C.UTF-8
USER 10001:10001
WORKDIR /state
EXPOSE 8080
STOPSIGNAL SIGTERM
# No further program is needed to ask: the shell speaks TCP.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5m --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r -t 2 line <&3 && [[ $line == *' 200 '* ]]"]
ENTRYPOINT ["ruvllm"]
CMD ["serve", "--models-dir", "/models", "--listen", "0.0.0.0:8080", "--store", "/state/ruvllm.db"]
