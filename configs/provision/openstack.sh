#!/bin/sh
# One OpenStack server for each host of the experiment, with the command line client `openstack`:
#
#   [hosts.edge]
#   cores = 4
#   memory = "8GiB"
#   agent = "edge"          # the server's name, and the agent's
#
#   [provision]
#   create  = ["configs/provision/openstack.sh", "create"]
#   destroy = ["configs/provision/openstack.sh", "destroy"]
#   timeout = "10min"
#
# It needs the variables of your OpenStack account (an RC file), and these:
#   IMAGE, FLAVOR, NETWORK, KEY    of the servers; the image has `rehearsal` and `curl` in it
#   ALLOW                          networks that agents permit traffic to, such as 192.0.2.0/24
# Expect one server for each host, and with --expect-agents N one agent on each.
set -eu

# name of each host that names its agent
names() {
    python3 -c 'import json, os
for host in json.loads(os.environ["REHEARSAL_HOSTS"]):
    if host["agent"]:
        print(host["agent"])'
}

case ${1:-} in
create)
    for name in $(names); do
        data=$(mktemp)
        cat >"$data" <<EOD
#!/bin/sh
address=\$(curl -s http://169.254.169.254/latest/meta-data/local-ipv4)
exec rehearsal agent --nats "$REHEARSAL_NATS" --name "$name" --listen "\$address" --allow "$ALLOW"
EOD
        openstack server create --image "$IMAGE" --flavor "$FLAVOR" --network "$NETWORK" --key-name "$KEY" \
            --property "rehearsal-run=$REHEARSAL_RUN" --user-data "$data" --wait "$name-$REHEARSAL_RUN"
        rm "$data"
    done
    ;;
destroy)
    for name in $(names); do
        # one that was never made is gone already
        openstack server delete --wait "$name-$REHEARSAL_RUN" || true
    done
    ;;
*)
    echo "usage: $0 create|destroy" >&2
    exit 2
    ;;
esac
