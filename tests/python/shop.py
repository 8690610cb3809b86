"""A small shop for the tests of users' steps: a token for each login, a cart for each token, 401 without.

Takes how often a token may be used. Prints its port, then serves until it is killed. `GET /stats` tells what it answered.
"""

import json
import secrets
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOCK = threading.Lock()
TOKENS, CARTS, STATS = {}, {}, {"login": 0, "cart": 0, "item": 0, "refused": 0, "wrong": 0, "expired": 0}
# every token is good for so many requests, then it is no longer known
USES = int(sys.argv[1])


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, value, **headers):
        body = json.dumps(value).encode()
        self.send_response(code)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def user(self):
        """Who has the token that came along; counts what is refused."""
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        with LOCK:
            known = TOKENS.get(token)
            if known is None:
                STATS["refused"] += 1
                return None
            if known["left"] == 0:
                del TOKENS[token]
                STATS["expired"] += 1
                return None
            known["left"] -= 1
            return known["user"]

    def do_GET(self):
        if self.path == "/stats":
            with LOCK:
                return self.answer(200, STATS)
        user = self.user()
        if user is None:
            return self.answer(401, {"error": "who are you?"})
        cart = self.path.removeprefix("/carts/").split("?")[0]
        with LOCK:
            mine = CARTS.get(cart) == user
            STATS["item" if mine else "wrong"] += 1
        return self.answer(200 if mine else 403, {"cart": cart, "of": user})

    def do_POST(self):
        body = self.body()
        if self.path == "/login":
            sent = json.loads(body)
            good = sent["password"] == f"secret of {sent['user']}"
            with LOCK:
                STATS["login" if good else "wrong"] += 1
                token = secrets.token_urlsafe(24)
                if good:
                    TOKENS[token] = {"user": sent["user"], "left": USES}
            return self.answer(200 if good else 403, {"auth": {"token": token if good else None}})
        user = self.user()
        if user is None:
            return self.answer(401, {"error": "who are you?"})
        with LOCK:
            STATS["cart"] += 1
            cart = f"{user}-{STATS['cart']}"
            CARTS[cart] = user
        return self.answer(201, {"of": user}, x_cart=cart)


server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
