#!/bin/sh
# Two agents as processes of this machine, for trying out `[provision]` without a lab:
#
#   [provision]
#   create  = ["configs/provision/local.sh", "create"]
#   destroy = ["configs/provision/local.sh", "destroy"]
#
# Nodes go to the agents made here, and not to others that were there before, if their hosts ask for the label that these
# have:
#
#   [hosts.sending]
#   cores = 1
#   labels = { made = "local" }
#
#   [hosts.receiving]
#   cores = 1
#   labels = { made = "local" }
#
#   [nodes.camera]
#   host = "sending"
#
# Expect two lines in `rehearsal agents`, `local-1` and `local-2`, for as long as the run lasts.
set -eu

program=${REHEARSAL_PROGRAM:-rehearsal}
folder=${TMPDIR:-/tmp}/rehearsal-provision-$REHEARSAL_RUN

case ${1:-} in
create)
    mkdir -m 700 "$folder"
    for name in local-1 local-2; do
        "$program" agent --nats "$REHEARSAL_NATS" --name "$name" --labels made=local \
            --cache "$folder/$name" \
            >"$folder/$name.log" 2>&1 </dev/null &
        echo $! >"$folder/$name.pid"
    done
    # done when both are on the list, or one has given up
    while :; do
        found=$("$program" agents --nats "$REHEARSAL_NATS" | grep -c '^local-[12] ' || true)
        [ "$found" -eq 2 ] && exit 0
        for name in local-1 local-2; do
            kill -0 "$(cat "$folder/$name.pid")" 2>/dev/null || { cat "$folder/$name.log" >&2; exit 1; }
        done
        sleep 0.2
    done
    ;;
destroy)
    [ -d "$folder" ] || exit 0
    for pid in "$folder"/*.pid; do
        kill "$(cat "$pid")" 2>/dev/null || true
    done
    # they take themselves off the list
    for pid in "$folder"/*.pid; do
        while kill -0 "$(cat "$pid")" 2>/dev/null; do sleep 0.1; done
    done
    rm -r "$folder"
    ;;
*)
    echo "usage: $0 create|destroy" >&2
    exit 2
    ;;
esac
