# Stand-in for the published image: Debian's python3 lies in /usr/bin, its packages in dist-packages.
FROM debian:bookworm-slim
LABEL overnight.stand-in="python 3.11 from Debian's packages"
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-pip python3-venv python-is-python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /usr/lib/python3.11/EXTERNALLY-MANAGED
# The machine that builds it may reach package indexes by an authority of its own.
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
ENV LANG=C.UTF-8 PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
CMD ["python3"]
