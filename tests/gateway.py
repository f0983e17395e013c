"""What Envoy is told for the Gateway API documents of `k8s/`: the fields those have, and an error for any other.

It follows what Envoy Gateway makes of them: a listener's routes by host name, TLS ended at the listener, TLS to the
backends whose certificates are checked, timeouts and limits of the two policies, and Envoy's own defaults for what
nobody has said. TCP keepalive is left out: on one machine nothing would show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path
from typing import Any, Final

Document = dict[str, Any]
TYPE: Final = "type.googleapis.com/envoy.extensions"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class UnknownFieldError(Exception):
    """A document says something that is not translated here, so a test would not show what it does."""


def seconds(duration: str) -> str:
    """A duration of Gateway API (`5m`, `1h30m`, `0s`) as Envoy writes them."""
    parts = re.findall(r"(\d+)(ms|s|m|h)", duration)
    if "".join(map("".join, parts)) != duration:
        raise UnknownFieldError(f"{duration!r} is no duration")
    return f"{sum(int(number) * _UNITS[unit] for number, unit in parts):g}s"


def only(document: Mapping[str, Any], *fields: str) -> None:
    """Raises UnknownFieldError for a field that is not among these."""
    if unknown := sorted(set(document) - set(fields)):
        raise UnknownFieldError(f"not translated: {', '.join(unknown)} in {document}")


def field(document: Mapping[str, Any], path: str) -> Any:
    """The value at `a.b.c`; None where nobody has said anything."""
    value: Any = document
    for name in path.split("."):
        value = (value or {}).get(name)
    return value


@dataclass(frozen=True)
class Files:
    """Where the certificates are that the documents name by Secrets."""

    cert: Path
    """Of the gateway's listeners."""
    key: Path
    authority: Path
    """Who signs those of the pods."""


class Gateway:
    """The documents about one Gateway."""

    def __init__(self, documents: Sequence[Document]) -> None:
        kinds: dict[str, list[Document]] = {}
        for document in documents:
            kinds.setdefault(document["kind"], []).append(document)
        (self._gateway,) = kinds["Gateway"]
        self._routes = kinds["GRPCRoute"]
        self._tls = {
            target["name"]: policy["spec"]["validation"]
            for policy in kinds["BackendTLSPolicy"]
            for target in policy["spec"]["targetRefs"]
        }
        self._backend = self._policy(kinds, "BackendTrafficPolicy")
        self._client = self._policy(kinds, "ClientTrafficPolicy")
        # What would change the path of a request must not be here unseen.
        for kind in ("HTTPRoute", "TCPRoute", "TLSRoute", "SecurityPolicy", "EnvoyPatchPolicy"):
            if kind in kinds:
                raise UnknownFieldError(f"not translated: {kind}")

    def _policy(self, kinds: Mapping[str, list[Document]], kind: str) -> Document:
        policies = kinds.get(kind, [])
        if not policies:
            return {}
        (spec,) = (policy["spec"] for policy in policies)
        (target,) = spec["targetRefs"]
        only(target, "group", "kind", "name")
        if (target["kind"], target["name"]) != ("Gateway", self._gateway["metadata"]["name"]):
            raise UnknownFieldError(f"not translated: {kind} for {target}")
        allowed = {
            "BackendTrafficPolicy": ("targetRefs", "timeout", "circuitBreaker", "tcpKeepalive"),
            "ClientTrafficPolicy": ("targetRefs", "timeout", "connection", "http2", "tcpKeepalive", "tls"),
        }
        only(spec, *allowed[kind])
        return dict(spec)

    def hostnames(self) -> list[str]:
        """Every host name that has a route."""
        return [host for route in self._routes for host in route["spec"]["hostnames"]]

    # What Envoy is told.

    def listener(self, name: str, files: Files) -> Document:
        """One TLS listener on a free port with all routes."""
        for listener in self._gateway["spec"]["listeners"]:
            only(listener, "name", "hostname", "port", "protocol", "tls", "allowedRoutes")
            if (listener["port"], listener["protocol"], listener["tls"]["mode"]) != (
                443,
                "HTTPS",
                "Terminate",
            ):
                raise UnknownFieldError(f"not translated: {listener}")
        manager: Document = {
            "@type": f"{TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": name,
            "codec_type": "AUTO",
            # Clients name the port as well.
            "strip_any_host_port": True,
            # As Envoy Gateway has it: the client's address is appended to x-forwarded-for.
            "use_remote_address": True,
            "http_filters": [
                {"name": "router", "typed_config": {"@type": f"{TYPE}.filters.http.router.v3.Router"}}
            ],
            "route_config": {"name": name, "virtual_hosts": [self._host(route) for route in self._routes]},
        }
        timeout = "timeout.http"
        only(field(self._client, timeout) or {}, "requestReceivedTimeout", "streamIdleTimeout", "idleTimeout")
        if (received := field(self._client, f"{timeout}.requestReceivedTimeout")) is not None:
            manager["request_timeout"] = seconds(received)
        if (idle := field(self._client, f"{timeout}.streamIdleTimeout")) is not None:
            manager["stream_idle_timeout"] = seconds(idle)
        if (idle := field(self._client, f"{timeout}.idleTimeout")) is not None:
            manager["common_http_protocol_options"] = {"idle_timeout": seconds(idle)}
        only(self._client.get("http2", {}), "maxConcurrentStreams")
        if (streams := field(self._client, "http2.maxConcurrentStreams")) is not None:
            manager["http2_protocol_options"] = {"max_concurrent_streams": streams}
        certificate = {"certificate_chain": _file(files.cert), "private_key": _file(files.key)}
        return {
            "name": name,
            "address": _address(0),
            "filter_chains": [
                {
                    "filters": [*self._connections(name), {"name": "http", "typed_config": manager}],
                    "transport_socket": {
                        "name": "tls",
                        "typed_config": {
                            "@type": f"{TYPE}.transport_sockets.tls.v3.DownstreamTlsContext",
                            "common_tls_context": {
                                "alpn_protocols": ["h2", "http/1.1"],
                                "tls_certificates": [certificate],
                            },
                        },
                    },
                }
            ],
        }

    def _connections(self, name: str) -> list[Document]:
        only(self._client.get("connection", {}), "connectionLimit")
        limit = field(self._client, "connection.connectionLimit")
        if limit is None:
            return []
        only(limit, "value", "closeDelay")
        kind = f"{TYPE}.filters.network.connection_limit.v3.ConnectionLimit"
        most, delay = limit["value"], seconds(limit["closeDelay"])
        said = {"@type": kind, "stat_prefix": name, "max_connections": most, "delay": delay}
        return [{"name": "connections", "typed_config": said}]

    def _host(self, route: Document) -> Document:
        spec = route["spec"]
        only(spec, "parentRefs", "hostnames", "rules")
        (parent,) = spec["parentRefs"]
        (of,) = (x for x in self._gateway["spec"]["listeners"] if x["name"] == parent["sectionName"])
        if not all(fnmatch(host, of["hostname"]) for host in spec["hostnames"]):
            raise UnknownFieldError(
                f"{spec['hostnames']} are no hosts of the listener {of['name']}: not attached"
            )
        ways = []
        for rule in spec["rules"]:
            only(rule, "matches", "backendRefs")
            (backend,) = rule["backendRefs"]
            only(backend, "name", "port")
            action: Document = {"cluster": self._cluster_name(backend["name"])}
            if (limit := field(self._backend, "timeout.http.requestTimeout")) is not None:
                action["timeout"] = seconds(limit)
            for match in rule["matches"]:
                only(match, "method")
                only(match["method"], "service")
                prefix = {"prefix": f"/{match['method']['service']}/", "grpc": {}}
                ways.append({"match": prefix, "route": action})
        return {"name": route["metadata"]["name"], "domains": spec["hostnames"], "routes": ways}

    def _cluster_name(self, service: str) -> str:
        """Listeners with other policies have clusters of their own."""
        return f"{service}{'' if self._backend else ' (no policy)'}"

    def clusters(self, ports: Mapping[str, Sequence[int]], files: Files) -> list[Document]:
        """The backends: the pods of each Service are at these ports of this machine; none is one that has no pods."""
        names = dict.fromkeys(
            rule["backendRefs"][0]["name"] for route in self._routes for rule in route["spec"]["rules"]
        )
        return [self._cluster(name, ports.get(name, ()), files) for name in names]

    def _cluster(self, service: str, ports: Sequence[int], files: Files) -> Document:
        endpoints = [{"endpoint": {"address": _address(port)}} for port in ports]
        protocol: Document = {
            "@type": f"{TYPE}.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
        http = field(self._backend, "timeout.http") or {}
        only(http, "requestTimeout", "maxConnectionDuration", "connectionIdleTimeout")
        common = {}
        if "connectionIdleTimeout" in http:
            common["idle_timeout"] = seconds(http["connectionIdleTimeout"])
        if http.get("maxConnectionDuration", "0s") != "0s":
            common["max_connection_duration"] = seconds(http["maxConnectionDuration"])
        if common:
            protocol["common_http_protocol_options"] = common
        name = self._cluster_name(service)
        cluster: Document = {
            "name": name,
            "type": "STATIC",
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
            "typed_extension_protocol_options": {
                f"{TYPE.rpartition('/')[2]}.upstreams.http.v3.HttpProtocolOptions": protocol
            },
            "transport_socket": self._upstream_tls(service, files),
        }
        if (wait := field(self._backend, "timeout.tcp.connectTimeout")) is not None:
            cluster["connect_timeout"] = seconds(wait)
        breaker = self._backend.get("circuitBreaker", {})
        only(breaker, "maxConnections", "maxPendingRequests", "maxParallelRequests")
        if breaker:
            cluster["circuit_breakers"] = {
                "thresholds": [
                    {
                        "max_connections": breaker["maxConnections"],
                        "max_pending_requests": breaker["maxPendingRequests"],
                        "max_requests": breaker["maxParallelRequests"],
                    }
                ]
            }
        return cluster

    def _upstream_tls(self, service: str, files: Files) -> Document:
        # A Service without a policy is one to which the gateway talks in plain text: not one of ours.
        validation = self._tls[service]
        only(validation, "hostname", "caCertificateRefs")
        return {
            "name": "tls",
            "typed_config": {
                "@type": f"{TYPE}.transport_sockets.tls.v3.UpstreamTlsContext",
                "sni": validation["hostname"],
                "common_tls_context": {
                    "alpn_protocols": ["h2"],
                    "validation_context": {
                        "trusted_ca": _file(files.authority),
                        "match_typed_subject_alt_names": [
                            {"san_type": "DNS", "matcher": {"exact": validation["hostname"]}}
                        ],
                    },
                },
            },
        }


def _address(port: int) -> Document:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _file(path: Path) -> Document:
    return {"filename": str(path)}
