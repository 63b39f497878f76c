#!/usr/bin/env bash
# Runs Debian's web server Yaws on the VM with probes, apart from any other on
# this machine: its own folder and port. Usage:
#
#   scripts/yaws.sh start                     returns when it takes connections
#   scripts/yaws.sh pid                       prints the pid of its VM
#   scripts/yaws.sh load [20s [CONNECTIONS]]  has wrk ask for its pages for so long,
#                                             and prints the throughput
#   scripts/yaws.sh stop                      stops it and removes its folder
#
# The pages: a small file, which Yaws caches; a large one, which it opens each
# time; and a dynamic one, for which it asks its session server.
set -euo pipefail
# shellcheck source=scripts/systems/common.sh
. "$(dirname "$0")/systems/common.sh"

port=$((26000 + instance))

start() {
	local root ebin
	root=$(unpacked erlang-yaws)
	ebin=$(printf '%s\n' "$root"/usr/lib/yaws-*/ebin)
	with_probes
	fresh
	trap 'end; echo "Yaws does not start:" >&2; tail -n 20 "$dir/output" >&2; rm -rf "$dir"' EXIT
	free_port "$port"
	pages
	cat >"$dir/yaws.conf" <<-CONF
		logdir = $dir/log
		<server localhost>
		    port = $port
		    listen = 127.0.0.1
		    docroot = $dir/www
		    access_log = false
		    <listen_opts>
		        nodelay = true
		    </listen_opts>
		</server>
	CONF
	HOME=$dir in_background erl -noinput -pa "$ebin" -yaws conf "\"$dir/yaws.conf\"" -yaws id "beamscope$instance" -run yaws
	mv "$dir/started" "$dir/pid" # erl and what it calls replace themselves by exec
	await_port "$port"
	trap - EXIT
	echo "Yaws of Debian, pid $(server), takes connections on port $port"
}

pages() {
	mkdir -p "$dir/www" "$dir/log"
	echo 'a small page' >"$dir/www/small.html"
	head -c 200000 /dev/zero >"$dir/www/large.bin"
	cat >"$dir/www/session.yaws" <<-'PAGE'
		<erl>
		out(_) ->
		    Cookie = yaws_api:new_cookie_session(visitor, 1),
		    {html, ["session ", Cookie]}.
		</erl>
	PAGE
}

load() {
	local root library
	root=$(unpacked wrk libluajit-5.1-2 libluajit-5.1-common)
	library=$(dirname "$(printf '%s\n' "$root"/usr/lib/*/libluajit-5.1.so.2)")
	LD_LIBRARY_PATH=$library "$root/usr/bin/wrk" --latency -t 1 -d "$1" -c "$2" \
		-s "$here/systems/yaws_load.lua" "http://127.0.0.1:$port"
}

stop() {
	[ -d "$dir" ] || fail "instance $instance does not run"
	end
	rm -rf "$dir"
}

case ${1-} in
start) start ;;
pid) server ;;
load)
	server >/dev/null
	load "${2-20s}" "${3-8}"
	;;
stop) stop ;;
*) usage 'start|pid|load [20s [connections]]|stop' ;;
esac
