"""The addresses of the game processes, one each: `python k8s/addresses.py` writes `base/gateway/addresses.yaml`.

A player must reach the process that owns the match. Gateway API has no way to name a pod, so each process gets a Service
of its own, a route for its host name, and the TLS between gateway and pod. COUNT is how many processes there may be: the
autoscaler's `maxReplicas`; a test holds them together.
"""

from __future__ import annotations

from pathlib import Path

COUNT = 10
DOMAIN = "play.example.org"
HEADER = "# Made by `python k8s/addresses.py`; change that instead.\n"
ONE = """\
apiVersion: v1
kind: Service
metadata:
  name: game-{number}
spec:
  # A process that is not ready plays on with the matches it has.
  publishNotReadyAddresses: true
  selector:
    statefulset.kubernetes.io/pod-name: game-{number}
  ports:
    - name: public
      port: 7601
      targetPort: public
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata:
  name: game-{number}
spec:
  parentRefs:
    - name: play
      sectionName: game
  hostnames: [game-{number}.{domain}]
  rules:
    - matches:
        - method:
            service: spectacularbid.match.v1.MatchService
      backendRefs:
        - name: game-{number}
          port: 7601
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata:
  name: game-{number}
spec:
  targetRefs:
    - group: ""
      kind: Service
      name: game-{number}
  validation:
    hostname: game.spectacular-bid.svc
    caCertificateRefs:
      - group: ""
        kind: Secret
        name: game-public-tls
"""


def addresses(count: int = COUNT, domain: str = DOMAIN) -> str:
    """The manifests of `count` game processes under `domain`."""
    return HEADER + "---\n".join(ONE.format(number=number, domain=domain) for number in range(count))


if __name__ == "__main__":
    (Path(__file__).parent / "base" / "gateway" / "addresses.yaml").write_text(addresses(), encoding="utf-8")
