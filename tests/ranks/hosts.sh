# Hosts as namespaces: `sh -eu hosts.sh FOLDER DELAY HOST …`, as the first process of a PID namespace of its own.
#
# Each host has its own network, name, /dev/shm and System V memory, and an address on a bridge that only they share.
# FOLDER gets `agent`, which runs a command on a host as ssh would; where it is not below /tmp, each host has a /tmp of its own. Prints a
# line on the delay between hosts, and `up` once all are. Everything is gone, with every process in it, when this one ends: at the end of its input.
folder=$1 delay=$2
shift 2

ip link set lo up
ip link add bridge type bridge
ip link set bridge up

number=0
echo "127.0.0.1 localhost" > "$folder/hosts"
for host; do
    number=$((number + 1))
    echo "10.0.0.$number $host" >> "$folder/hosts"
done

cat > "$folder/agent" <<AGENT
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
TMPDIR=$folder/\$host.tmp
export TMPDIR
exec nsenter -t "\$(cat "$folder/\$host.pid")" -n -u -i -m --wd="\$PWD" -- sh -c "\$*"
AGENT
chmod +x "$folder/agent"

number=0
for host; do
    number=$((number + 1))
    mkdir -m 1777 "$folder/$host.tmp"
    mkfifo "$folder/$host.up"
    unshare --net --uts --ipc --mount sh -eu -c '
        hostname "$2"
        mount --bind "$1/hosts" /etc/hosts
        mount -t tmpfs -o mode=1777 shm /dev/shm
        [ "${1#/tmp/}" != "$1" ] || mount --bind "$1/$2.tmp" /tmp
        ip link set lo up
        echo up > "$1/$2.up"
        exec sleep infinity' host "$folder" "$host" > /dev/null &
    echo $! > "$folder/$host.pid"
    # A host that cannot be made opens no pipe: without the limit this would wait for ever.
    timeout 10 cat "$folder/$host.up" > /dev/null
    ip link add "to$number" type veth peer name eth0 netns $!
    ip link set "to$number" master bridge up
    nsenter -t $! -n ip address add "10.0.0.$number/24" dev eth0
    nsenter -t $! -n ip link set eth0 up
    said="delay $delay each way"
    nsenter -t $! -n tc qdisc add dev eth0 root netem delay "$delay" 2> "$folder/netem" ||
        said="no delay between hosts: this kernel has no netem ($(tr '\n' ' ' < "$folder/netem"))"
done
echo "$said"
echo up
# The shell stays, and waits for those whose parents are gone: as zombies they would pass for alive.
cat > /dev/null
