#!/bin/sh
# Makes what a lab's NATS server and its clients need to trust each other, with openssl alone.
#
#   keys.sh lab HOST…      a folder `keys` with an authority (ca), a certificate of the server for these names and
#                          addresses, and one for each role; each is valid for a year
#   keys.sh nkey FILE      a new nkey: its seed into FILE, its public part, for the server's configuration, on stdout
#
# Files that are there are not overwritten, and keys can only be read by their owner. The authority's own key, keys/ca.key,
# belongs on no host of the lab.
set -eu
umask 077
days="${KEYS_DAYS:-365}"

die() {
    echo "keys.sh: $1" >&2
    exit 2
}

# certificate NAME EXTENSIONS: a key and a certificate that the authority signs
certificate() {
    if [ -e "keys/$1.key" ]; then
        echo "keys.sh: keys/$1.key is there and kept; remove it to make a new one" >&2
        return
    fi
    printf '%s\n' "$2" >"keys/$1.ext"
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/O=rehearsal/CN=$1" \
        -keyout "keys/$1.key" -out "keys/$1.csr" 2>/dev/null
    openssl x509 -req -in "keys/$1.csr" -CA keys/ca.pem -CAkey keys/ca.key -CAcreateserial -days "$days" \
        -extfile "keys/$1.ext" -out "keys/$1.pem" 2>/dev/null
    rm "keys/$1.csr" "keys/$1.ext"
}

lab() {
    [ $# -gt 0 ] || die "lab: which names or addresses does the server have? keys.sh lab 127.0.0.1 localhost"
    names=""
    for host in "$@"; do
        case "$host" in
        *[!0-9.]*[!0-9a-fA-F:.]* | *[g-zG-Z]*) names="$names,DNS:$host" ;;
        *:* | *.*.*.*) names="$names,IP:$host" ;;
        *) names="$names,DNS:$host" ;;
        esac
    done
    mkdir -p keys
    if [ ! -e keys/ca.key ]; then
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days "$days" \
            -subj "/O=rehearsal/CN=lab authority" -addext "keyUsage=critical,keyCertSign,cRLSign" \
            -keyout keys/ca.key -out keys/ca.pem 2>/dev/null
    fi
    certificate server "subjectAltName=${names#,}
extendedKeyUsage=serverAuth"
    for role in controller node agent-1 aggregator viewer; do
        certificate "$role" "subjectAltName=DNS:$role
extendedKeyUsage=clientAuth"
    done
    echo "keys/: ca.pem for everybody (--nats-ca), server.pem and server.key for the server, the rest for clients"
}

# Bytes, as two hexadecimal digits each on stdin, in base32 with the checksum that nkeys have (CRC-16/XMODEM).
encoded() {
    hex="$1"
    crc=0
    rest="$hex"
    while [ -n "$rest" ]; do
        byte=$((0x$(printf %.2s "$rest")))
        rest="${rest#??}"
        crc=$((crc ^ (byte << 8)))
        for _ in 1 2 3 4 5 6 7 8; do
            crc=$((crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1))
        done
        crc=$((crc & 0xffff))
    done
    whole="$hex$(printf '%02x%02x' $((crc & 255)) $((crc >> 8)))"
    octal=""
    while [ -n "$whole" ]; do
        octal="$octal$(printf '\\%03o' $((0x$(printf %.2s "$whole"))))"
        whole="${whole#??}"
    done
    # shellcheck disable=SC2059
    printf "$octal" | base32 | tr -d '=\n'
}

hexadecimal() {
    od -An -v -tx1 | tr -d ' \n'
}

nkey() {
    [ $# -eq 1 ] || die "nkey: into which file? keys.sh nkey node.seed"
    [ ! -e "$1" ] || die "$1 is there already; remove it to make a new one"
    # an Ed25519 key (RFC 8410) ends with its 32 bytes, and so does its public part
    seed="$(openssl genpkey -algorithm ED25519 -outform DER -out "$1" && tail -c 32 "$1" | hexadecimal)"
    public="$(openssl pkey -inform DER -in "$1" -pubout -outform DER | tail -c 32 | hexadecimal)"
    # the first bits say what it is: S and U for the seed of a user, U for a user
    printf '%s\n' "$(encoded "9500$seed")" >"$1"
    printf '%s\n' "$(encoded "a0$public")"
}

verb="${1:-}"
[ $# -eq 0 ] || shift
case "$verb" in
lab) lab "$@" ;;
nkey) nkey "$@" ;;
*) die "write keys.sh lab HOST…, or keys.sh nkey FILE" ;;
esac
