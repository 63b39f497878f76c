#!/usr/bin/env bash
# Runs Debian's RabbitMQ on the VM with probes, apart from any other on this
# machine: its own folder, ports, node name, epmd and cookie. Usage:
#
#   scripts/rabbitmq.sh start          returns when it takes connections
#   scripts/rabbitmq.sh pid            prints the pid of its VM
#   scripts/rabbitmq.sh load [20s|N [RATE]]
#                                      publishes and consumes for so long, or N
#                                      messages, RATE a second or as fast as it
#                                      can, and prints the throughput
#   scripts/rabbitmq.sh spans slow-consumer|disk|plain [20s|N [RATE]]
#                                      does so within its VM, in spans: "publish" until
#                                      a message is confirmed, "delivery" until its
#                                      consumer is done; see systems/rabbitmq_spans.erl.
#                                      SEQ_TRACE=1 sets seq_trace tokens too. CARRIER=probes,
#                                      the first time, makes its spans fire the VM's probes
#   scripts/rabbitmq.sh ctl COMMAND... runs its rabbitmqctl
#   scripts/rabbitmq.sh stop           stops it and removes its folder
set -euo pipefail
# shellcheck source=scripts/systems/common.sh
. "$(dirname "$0")/systems/common.sh"

amqp=$((25000 + 10 * instance))
distribution=$((amqp + 1))
epmd=$((amqp + 2))
tools=$((amqp + 3)) # to amqp + 9, of what connects to the node

environment() {
	local root
	root=$(unpacked rabbitmq-server)
	home=$(printf '%s\n' "$root"/usr/lib/rabbitmq/lib/rabbitmq_server-*)
	with_probes
	export HOME=$dir # for the cookie
	export ERL_EPMD_PORT=$epmd ERL_EPMD_ADDRESS=127.0.0.1
	export RABBITMQ_NODENAME=beamscope$instance@localhost RABBITMQ_DIST_PORT=$distribution
	export RABBITMQ_CTL_DIST_PORT_MIN=$tools RABBITMQ_CTL_DIST_PORT_MAX=$((amqp + 9))
	export RABBITMQ_CONF_ENV_FILE=$dir/none RABBITMQ_CONFIG_FILE=$dir/rabbitmq.conf
	export RABBITMQ_ADVANCED_CONFIG_FILE=$dir/none RABBITMQ_ENABLED_PLUGINS_FILE=$dir/enabled_plugins
	export RABBITMQ_MNESIA_BASE=$dir/mnesia RABBITMQ_LOG_BASE=$dir/log
	export RABBITMQ_GENERATED_CONFIG_DIR=$dir/generated RABBITMQ_SCHEMA_DIR=$dir/schema
	export RABBITMQ_PID_FILE=$dir/pid
}

# library: compiles the modules for its VM, and adds them to the code path of this VM and others.
library() {
	local lib=$dir/lib
	if [ ! -d "$lib" ]; then
		mkdir -p "$lib.new/beamscope/ebin" "$lib.new/rabbitmq_spans/ebin"
		erlc -o "$lib.new/beamscope/ebin" "$here"/../erlang/beamscope/src/*.erl
		ERL_LIBS=$home/plugins erlc -o "$lib.new/rabbitmq_spans/ebin" "$here"/systems/rabbitmq_*.erl
		mv "$lib.new" "$lib"
	fi
	export ERL_LIBS=$home/plugins:$lib
}

# keep_disk_busy: writes to the disk that its messages are on, until it is killed.
keep_disk_busy() {
	trap 'rm -f "$dir/ballast"' EXIT
	trap 'exit 0' TERM
	while :; do
		dd if=/dev/zero of="$dir/ballast" bs=1M count=16 conv=fsync status=none
	done
}

# spans SCENARIO AMOUNT RATE: returns when its VM has done so.
spans() {
	local tokens=false carrier=${CARRIER-auto}
	[ "${SEQ_TRACE-0}" = 0 ] || tokens=true
	if [ "$1" = disk ]; then
		keep_disk_busy &
		# shellcheck disable=SC2064
		trap "kill $! 2>/dev/null; wait" EXIT
	fi
	"$home/sbin/rabbitmqctl" -q eval "
		[code:add_pathz(filename:join([\"$dir/lib\", App, \"ebin\"])) || App <- [\"beamscope\", \"rabbitmq_spans\"]],
		application:set_env(beamscope, carrier, $carrier),
		rabbitmq_spans:run(\"$1\", \"$2\", \"$3\", $tokens)." | sed '/^ok$/d' # what it returns
}

start() {
	fresh
	trap 'end; stop_epmd; echo "RabbitMQ does not start:" >&2; tail -n 20 "$dir/output" >&2; rm -rf "$dir"' EXIT
	for port in "$amqp" "$distribution" "$epmd"; do
		free_port "$port"
	done
	cat >"$dir/rabbitmq.conf" <<-CONF
		listeners.tcp.1 = 127.0.0.1:$amqp
		log.console.level = warning
	CONF
	echo '[].' >"$dir/enabled_plugins"
	in_background "$home/sbin/rabbitmq-server"
	"$home/sbin/rabbitmqctl" -q wait --timeout 120 "$dir/pid" >&2
	trap - EXIT
	echo "RabbitMQ of Debian, pid $(server), takes connections on port $amqp"
}

stop_epmd() { epmd -port "$epmd" -kill >/dev/null 2>&1 || true; }

stop() {
	[ -d "$dir" ] || fail "instance $instance does not run"
	end
	stop_epmd
	rm -rf "$dir"
}

case ${1-} in
start)
	environment
	start
	;;
pid) server ;;
load)
	server >/dev/null
	environment
	library
	ERL_CRASH_DUMP_SECONDS=0 escript "$here/systems/rabbitmq_load.escript" "$amqp" "${2-20s}" "${3-0}"
	;;
spans)
	server >/dev/null
	environment
	library
	spans "${2-plain}" "${3-20s}" "${4-200}"
	;;
ctl)
	server >/dev/null
	environment
	shift
	"$home/sbin/rabbitmqctl" -q "$@"
	;;
stop)
	environment
	stop
	;;
*) usage 'start|pid|load [20s|messages [a second]]|spans slow-consumer|disk|plain [20s|messages [a second]]|ctl command...|stop' ;;
esac
