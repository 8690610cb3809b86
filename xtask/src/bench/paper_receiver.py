"""A receiver as the paper describes it: Flask, one thread per request, a pause in place of the analysis.

    paper_receiver.py PORT PAUSE_SECONDS
"""

import logging
import sys
import time

from flask import Flask, request

app = Flask(__name__)
port, pause_seconds = int(sys.argv[1]), float(sys.argv[2])


@app.post("/")
def receive():
    body = request.get_data()
    if pause_seconds > 0:
        time.sleep(pause_seconds)
    return {"ack": len(body)}


if __name__ == "__main__":
    # a line of log per request would be measured too
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app.run("127.0.0.1", port, threaded=True)
