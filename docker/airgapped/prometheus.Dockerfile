# Stand-in for the published image: Debian's prometheus and promtool, at the same paths.
FROM debian:bookworm-slim
LABEL overnight.stand-in="prometheus from Debian's packages"
# Unpacked, not installed: the package depends on a user, a service and fonts that nobody needs here.
RUN apt-get update && cd /tmp && apt-get download prometheus \
    && dpkg-deb -x prometheus_*.deb unpacked \
    && install -m 755 unpacked/usr/bin/prometheus unpacked/usr/bin/promtool /bin/ \
    && mkdir -p /prometheus /etc/prometheus && chown 65534:65534 /prometheus \
    && rm -rf /tmp/* /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
USER 65534:65534
WORKDIR /prometheus
EXPOSE 9090
ENTRYPOINT ["/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
