#!/bin/sh
# Installs the servers of the tests that the machine lacks; with the argument `proxies`, proxies too. Prints in
# one line what it may not install.
set -eu
missing=""
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
command -v redis-server >/dev/null 2>&1 || [ -x /usr/bin/redis-server ] || missing="$missing redis-server"
ls /usr/lib/rabbitmq/bin/rabbitmq-server >/dev/null 2>&1 || missing="$missing rabbitmq-server"
command -v wrk >/dev/null 2>&1 || missing="$missing wrk"
command -v curl >/dev/null 2>&1 || missing="$missing curl"
if [ "${1:-}" = proxies ]; then
    command -v openssl >/dev/null 2>&1 || missing="$missing openssl"
    # Not always on an ordinary user's PATH.
    [ -x /usr/sbin/nginx ] || missing="$missing nginx-light"
    [ -x /usr/sbin/haproxy ] || missing="$missing haproxy"
    [ -x /usr/bin/caddy ] || missing="$missing caddy"
fi
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as_root="sudo -n"; else
        echo "The tests need servers that may not be installed from here; as root, run: apt-get install$missing" >&2
        exit 1
    fi
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "The tests need servers and this machine has no apt-get; install by hand:$missing" >&2
    exit 1
fi
echo "Installing test servers:$missing"
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
