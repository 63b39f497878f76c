#!/usr/bin/env bash
# Runs servers of Debian on the VM with probes under load, observes each with the scope file of the
# documentation for 20 seconds, and fails unless outcomes that such a server always has show
# instances, and top names its processes. It also makes RabbitMQ slow in several ways, and fails
# unless the causes are found. It takes about three minutes. Usage: scripts/try-systems.sh
# [rabbitmq|yaws]...
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- rabbitmq yaws
[ "$(id -u)" = 0 ] || { echo "try-systems.sh: only root may observe with eBPF" >&2 && exit 1; }

seconds=20
work=$(mktemp -d)
export INSTANCE=98 # not one that somebody is looking at

# The outcomes that have instances in any second under load.
expected() {
	case $1 in
	rabbitmq) echo hop mailbox message sync file_io gc run run_wait os_wait ;;
	yaws) echo file file_io call gc run run_wait os_wait ;;
	*) echo "try-systems.sh: $1: neither rabbitmq nor yaws" >&2 && exit 2 ;;
	esac
}

# A process that top has to name.
process() {
	case $1 in
	rabbitmq) echo rabbit_channel ;;
	yaws) echo yaws_session_server ;;
	esac
}

# explained SCENARIO RATE OUTCOME WHAT...: makes RabbitMQ run the scenario at a rate, and fails
# unless the explanation of one of the outcome's slowest spans names WHAT.
explained() {
	local scenario=$1 rate=$2 outcome=$3 what=$4 load
	scripts/rabbitmq.sh spans "$scenario" "${seconds}s" "$rate" >"$work/load" 2>&1 &
	load=$!
	bin/beamscope trace -c docs/scopes/rabbitmq-spans.yaml --pid "$(scripts/rabbitmq.sh pid)" \
		--for "$((seconds / 2))s" --outcome "$outcome" -n 16 >"$work/trace" 2>"$work/notices"
	wait "$load"
	grep -m 1 " of $outcome #[0-9]* was $what" "$work/trace" || {
		echo "$scenario: it is not found that it is $what" >&2
		cat "$work/trace" >&2
		return 1
	}
	tail -n 1 "$work/trace"
}

end() {
	local status=$? system
	[ "$status" = 0 ] || cat "$work"/notices "$work"/load >&2 2>/dev/null || true
	for system in rabbitmq yaws; do
		scripts/$system.sh stop >/dev/null 2>&1 || true # those that run
	done
	rm -rf "$work"
}

try() {
	local system=$1 outcomes pid load status=0
	outcomes=$(expected "$system")
	scripts/"$system".sh start
	pid=$(scripts/"$system".sh pid)
	scripts/"$system".sh load "$((2 * seconds))s" >"$work/load" 2>&1 &
	load=$!
	cp "docs/scopes/$system.yaml" "$work" # snapshots go beside it
	bin/beamscope run -c "$work/$system.yaml" --limit 0 --pid "$pid" --headless --for "${seconds}s" >"$work/run" 2>"$work/notices"
	bin/beamscope top --pid "$pid" --for 10s --rate 10000000 >"$work/top" 2>>"$work/notices"
	wait "$load"
	sed -n '/^totals/,$p' "$work/run"
	tail -n 1 "$work/load"
	for outcome in $outcomes; do
		# Columns of the totals: probe, "pid", number, starts, ends, ok.
		awk -v outcome="$outcome" '/^totals/ { totals = 1 } totals && $1 == outcome && $6 > 0 { seen = 1 } END { exit !seen }' "$work/run" ||
			{ echo "$system: no instance of $outcome" >&2 && status=1; }
	done
	grep -q "$(process "$system")" "$work/top" || { echo "$system: top does not name $(process "$system")" >&2 && status=1; }
	if [ "$system" = rabbitmq ]; then
		explained slow-consumer 200 delivery 'waiting in the mailbox of .*slow_consumer' || status=1
		explained disk 0 publish 'the dirty function prim_file:sync_nif/2 of .*rabbit_prequeue' || status=1
	fi
	scripts/"$system".sh stop
	return "$status"
}

trap end EXIT
scripts/need.sh go
go build -o bin/beamscope ./cmd/beamscope
for system in "$@"; do
	try "$system"
	echo "$system: all that was expected was seen"
done
