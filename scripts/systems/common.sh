# What the scripts that run a server on the VM with probes have in common. To be
# sourced by scripts/<server>.sh, after set -euo pipefail.
#
# A server's packages are unpacked into the cache folder, not installed: the
# system gets no service, no user, no second Erlang. An instance lives in a folder
# of its own below the cache folder, with its own ports, and goes with it; the
# environment's INSTANCE, 1 by default, says which, so that several can run.

# shellcheck shell=bash
shopt -s inherit_errexit
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
system=$(basename "$0" .sh)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamscope
instance=${INSTANCE:-1}
dir=$(realpath -m "$cache/systems/$system-$instance")

fail() {
	echo "$system.sh: $*" >&2
	exit 1
}

[[ $instance =~ ^[1-9][0-9]?$ ]] || fail "INSTANCE=$instance: not a number from 1 to 99"

usage() {
	echo "usage: $0 $*" >&2
	exit 2
}

# with_probes: has `erl` mean the VM with probes.
with_probes() {
	local erl
	erl=$("$here/../erlang/otp/build.sh")
	PATH=$(dirname "$erl"):$PATH
}

# unpacked PACKAGE...: prints the folder with the files of these packages, which
# is named after the first. It is complete or absent.
unpacked() {
	local root=$cache/debian/$1 work
	if [ ! -d "$root" ]; then
		command -v apt-get >/dev/null || fail "needs the packages $* of Debian, and there is no apt-get"
		mkdir -p "$cache/debian"
		work=$(mktemp -d "$cache/debian/unpack.XXXXXX")
		# shellcheck disable=SC2064
		trap "rm -rf '$work'" EXIT
		fetch "$work" "$@"
		for deb in "$work"/*.deb; do
			dpkg -x "$deb" "$work/root"
		done
		mv -T "$work/root" "$root" 2>/dev/null || [ -d "$root" ] # another run may have been faster
	fi
	echo "$root"
}

# fetch FOLDER PACKAGE...: downloads packages, with new lists if the old ones are.
fetch() (
	cd "$1" || return
	shift
	echo "fetching $*" >&2
	download() { apt-get -q -o APT::Sandbox::User=root download "$@" >log 2>&1; }
	download "$@" && return
	[ "$(id -u)" = 0 ] && apt-get update -qq >&2 && download "$@" && return
	cat log >&2
	fail "cannot download $*: try after apt-get update as root"
)

# fresh: makes the folder of an instance that is not there yet.
fresh() {
	[ ! -e "$dir" ] || fail "instance $instance is there already: stop it first (scripts/$system.sh stop), or set INSTANCE=2"
	mkdir -p "$dir"
}

# free_port PORT: says so if the port is taken.
free_port() {
	if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then
		fail "port $1 is taken: set INSTANCE to another number, for other ports"
	fi
}

# await_port PORT: waits until the server that was started takes connections.
await_port() {
	local pid deadline=$((SECONDS + 120))
	pid=$(server)
	until (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
		ours "$pid" || fail "it has ended by itself"
		((SECONDS < deadline)) || fail "port $1 is not open after two minutes"
		sleep 0.1
	done
}

# in_background COMMAND...: starts the server in its folder, where signals of this
# terminal do not reach it, printing to a file there.
in_background() {
	cd "$dir" || return
	ERL_CRASH_DUMP=$dir/erl_crash.dump setsid "$@" >"$dir/output" 2>&1 </dev/null &
	echo $! >"$dir/started"
}

# ours PID: is this a process of the instance? Numbers of processes come again.
ours() { [ "$(readlink "/proc/$1/cwd" 2>/dev/null)" = "$dir" ]; }

# server: prints the pid of the server's VM, which it writes itself.
server() {
	local pid
	pid=$(cat "$dir/pid" 2>/dev/null) || fail "instance $instance does not run: scripts/$system.sh start"
	ours "$pid" || fail "instance $instance has ended by itself: scripts/$system.sh stop, and start"
	echo "$pid"
}

# end: has the server's VM stop in good order, and waits until it is gone.
end() {
	local pid
	pid=$(cat "$dir/pid" 2>/dev/null || cat "$dir/started" 2>/dev/null || true)
	if [ -n "$pid" ] && ours "$pid"; then
		kill -TERM "$pid"
		timeout 60 tail --pid="$pid" -f /dev/null || fail "pid $pid does not stop; its folder is $dir"
	fi
}
