"""Hooks of .ci/api-fuzz: most names that schemathesis makes up become those of things that are there.

Which one is a function of what was made up, so that a seed repeats a run and a failure can be made smaller. What a
request deletes is put back. NARAD_URL and NARAD_USER (name:password) say where, and as whom.
"""

import base64
import json
import os
import time
import urllib.error
import urllib.request
import zlib

import schemathesis

URL = os.environ["NARAD_URL"]
CREDENTIALS = base64.b64encode(os.environ["NARAD_USER"].encode()).decode()
# The user whose password the fuzzer shows: nobody changes that, or nothing else would be reached.
SELF = os.environ["NARAD_USER"].split(":")[0]

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
TOPICS = {
    "plain": {},
    "with-schema": {"schema": SCHEMA},
    "parent": {"retention_ms": 0},
    "child": {"parent": "parent"},
    "delayed": {"parent": "parent", "fanout_delay_ms": 1000},
    "large": {"partitions": 108},
}
USERS = {
    "producer": [{"action": "produce", "patterns": ["*"]}],
    "reader": [{"action": "consume", "patterns": ["plain", "parent*"]}],
}
# Receipt handles that were given out, the last ones.
RECEIPTS = []


def call(method, path, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Authorization": "Basic " + CREDENTIALS}, method=method)
    try:
        urllib.request.urlopen(request, timeout=20).close()
    except urllib.error.HTTPError as error:
        # There already, or not any more, or somebody has given it a schema.
        if error.code >= 500:
            raise


def wait():
    for _ in range(300):
        try:
            return urllib.request.urlopen(URL + "/readyz", timeout=20).close()
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server does not become ready")


def seed():
    for name, settings in TOPICS.items():
        call("POST", "/v1/topics", {"name": name, **settings})
    for name, grants in USERS.items():
        call("POST", "/v1/users", {"username": name, "password": "a password", "grants": grants})
    for child in ("child", "delayed"):
        call("POST", "/v1/topics/parent/children", {"child": child})
    for name in ("plain", "with-schema", "parent", "child"):
        for partition in range(3):
            call("POST", f"/v1/topics/{name}/produce?partition={partition}", b'{"id":1}')
    call("POST", "/v1/topics/plain/produce?key=%FF", b"\xff\x00")


wait()
seed()


def known(made_up, pool):
    """Three of four become one of the pool; the fourth stays."""
    number = zlib.crc32(repr(made_up).encode())
    return pool[number // 4 % len(pool)] if pool and number % 4 else made_up


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    pools = {"topic": list(TOPICS), "child": ["child", "delayed", "plain"], "user": list(USERS)}
    pools["directory"] = ["adoptable"]
    for name, pool in pools.items():
        if path_parameters and name in path_parameters:
            path_parameters[name] = known(path_parameters[name], pool)
    return path_parameters


@schemathesis.hook
def map_query(context, query):
    pools = {"partition": [0, 1, 2], "offset": [0, 1, 2], "max": [1, 2, 100], "receipt_handle": RECEIPTS[-8:]}
    for name, pool in pools.items():
        if query and name in query:
            query[name] = known(query[name], pool)
    return query


@schemathesis.hook
def map_body(context, body):
    pools = {"name": list(TOPICS), "parent": ["parent", "plain"], "child": list(TOPICS), "username": list(USERS)}
    if isinstance(body, dict):
        for name, pool in pools.items():
            if isinstance(body.get(name), str):
                body[name] = known(body[name], pool)
        if isinstance(body.get("receipt_handles"), list):
            body["receipt_handles"] = [known(handle, RECEIPTS[-8:]) for handle in body["receipt_handles"]]
        if isinstance(body.get("messages"), list):
            for message in body["messages"]:
                if isinstance(message, dict) and "partition" in message:
                    message["partition"] = known(message["partition"], [0, 1, 2])
    return body


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.path.endswith("/password") and (case.path_parameters or {}).get("user") == SELF:
        case.path_parameters["user"] = "nobody"


@schemathesis.hook
def after_call(context, case, response):
    if case.method.upper() == "DELETE" and response.status_code == 204:
        seed()
    if case.path.endswith("/consume") and response.status_code == 200:
        answer = json.loads(response.content)
        for message in answer.get("messages", [answer]):
            if "receipt_handle" in message:
                RECEIPTS.append(message["receipt_handle"])
        del RECEIPTS[:-64]
